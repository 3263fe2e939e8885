"""The fixtures of the registry's tests serve here too."""

from tests.registry.conftest import migrated, parameters, places, postgres, registry

__all__ = ["migrated", "parameters", "places", "postgres", "registry"]
