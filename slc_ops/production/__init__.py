"""Production: the services of ``docker-compose.yaml``, with or without Docker.

``python -m slc_ops.production init`` prepares databases and logins; ``run`` checks the environment of a
service and then executes it; ``service`` does the same on a host without Docker, from the same compose file.
"""
