"""The fixtures of the registry tests are reused here."""

from tests.registry.conftest import installation, migrated, parameters, postgres, registry

__all__ = ["installation", "migrated", "parameters", "postgres", "registry"]
