"""Settings of an installation: the environment variables and the deployments file."""
