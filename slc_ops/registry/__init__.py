"""The registry: versions in MLflow, the history of champions in a ledger."""

from slc_ops.base.names import model_name
from slc_ops.registry.aliases import Gap
from slc_ops.registry.audit import Finding
from slc_ops.registry.publication import ChampionChange, Publication, Version
from slc_ops.registry.registry import Registry

__all__ = ["ChampionChange", "Finding", "Gap", "Publication", "Registry", "Version", "model_name"]
