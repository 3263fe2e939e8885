"""The registry: versions in MLflow, the history of champions in a ledger."""

from slc_ops.registry.publication import ChampionChange, Publication, Version
from slc_ops.registry.registry import Registry

__all__ = ["ChampionChange", "Publication", "Registry", "Version"]
