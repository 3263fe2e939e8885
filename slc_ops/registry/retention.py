"""Retention: versions that were never champion do not stay for ever. The ledger's rows and the runs do."""

import logging
from typing import TYPE_CHECKING

from slc_ops.base.errors import RegistryError
from slc_ops.base.names import model_name
from slc_ops.registry.ledger import Ledger
from slc_ops.registry.publication import Version

if TYPE_CHECKING:
    from mlflow import MlflowClient

_log = logging.getLogger(__name__)


def clean(client: "MlflowClient", ledger: Ledger, deployment: str, keep: int) -> list[Version]:
    """Mark versions beyond ``keep``, then delete them and their model files; answer what was deleted.

    Marked in the ledger first: from then on nobody can promote them, so deleting cannot hurt a champion.
    The run stays, with its figures, report and verdict: it is small, and it is the record.
    """
    if keep < 1:
        raise RegistryError(f"retention keeps at least 1 version; found {keep}")
    deleted = []
    present = {int(v.version) for v in client.search_model_versions(f"name = '{model_name(deployment)}'")}
    for version in ledger.discard(deployment, keep):
        if version.number in present:
            _delete(client, version)
            deleted.append(version)
    if deleted:
        _log.info("cleaned away %s of %s", ", ".join(f"version {v.number}" for v in deleted), deployment)
    return deleted


def _delete(client: "MlflowClient", version: Version) -> None:
    from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

    run = client.get_run(version.run_id)
    get_artifact_repository(run.info.artifact_uri, tracking_uri=client.tracking_uri).delete_artifacts("model")
    client.delete_model_version(model_name(version.deployment), str(version.number))
