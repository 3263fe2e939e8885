"""Production: the services of ``docker-compose.yaml``, with Docker or without.

``python -m slc_ops.production init`` prepares databases and logins; ``run`` checks a service's surroundings
and then becomes the service; ``service`` does the same on a host without Docker, from the same compose file.
"""
