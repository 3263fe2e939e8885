"""``--params``: a parameter set from a directory or from a registered model."""

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from slc_ops.errors import RegistryError

if TYPE_CHECKING:
    from slc_ops.correction.parameters import ParameterSet


def parameter_set(reference: str) -> "ParameterSet":
    """Read and verify ``DIR``, ``models:/NAME@ALIAS`` or ``models:/NAME/VERSION``."""
    from slc_ops.correction.parameters import ParameterSet

    if not reference.startswith("models:/"):
        return ParameterSet.read(Path(reference))
    with tempfile.TemporaryDirectory(prefix="slc-ops-") as directory:
        return ParameterSet.read(_download(reference, Path(directory)))


def _download(reference: str, directory: Path) -> Path:
    from slc_ops.mlflow_client import quiet_mlflow
    from slc_ops.registry.tracking import typed
    from slc_ops.settings import Places

    places = Places.from_environment()
    quiet_mlflow()
    import mlflow

    # A models:/ address is resolved against the process's own registry, whatever is passed to the download.
    mlflow.set_tracking_uri(places.tracking_uri)
    mlflow.set_registry_uri(places.tracking_uri)
    with typed(places.tracking_uri):
        mlflow.artifacts.download_artifacts(artifact_uri=reference, dst_path=str(directory))
    found = sorted(directory.rglob("params.json"))
    if len(found) != 1:
        raise RegistryError(f"{reference} holds {len(found)} parameter sets; expected exactly one")
    return found[0].parent
