"""The registered model of a deployment, in the catalog and schema that the environment names, if any."""

from slc_ops.base.names import model_name
from slc_ops.settings.environment import RegistryVariables


def registered_model(deployment: str) -> str:
    """``slc-<deployment>``, or ``catalog.schema.slc-<deployment>`` where ``SLC_OPS_MODEL_SCHEMA`` is set."""
    return model_name(deployment, RegistryVariables.read().model_schema)
