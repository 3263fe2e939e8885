"""The fixtures of the registry's tests serve here too."""

from tests.registry.conftest import installation, migrated, parameters, postgres, registry

__all__ = ["installation", "migrated", "parameters", "postgres", "registry"]
