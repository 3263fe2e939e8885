"""What an operator sets: the environment and the deployments file."""
