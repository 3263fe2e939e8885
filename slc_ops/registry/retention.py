"""Retention: delete old versions that were never champion; the ledger's rows and the runs remain."""

import logging
from typing import TYPE_CHECKING

from slc_ops.base.errors import RegistryError
from slc_ops.registry.ledger import Ledger
from slc_ops.registry.logged_model import MODEL_TAG, delete
from slc_ops.registry.publication import Version
from slc_ops.settings.environment import registered_model

if TYPE_CHECKING:
    from mlflow import MlflowClient

_log = logging.getLogger(__name__)


def clean(client: "MlflowClient", ledger: Ledger, deployment: str, keep: int) -> list[Version]:
    """Mark versions beyond ``keep``, then delete them and their model files; return the deleted ones.

    They are marked in the ledger first: marked versions cannot be promoted, so deletion cannot affect a
    champion. The run remains as the record, with its metrics, report and verdict. ``keep`` below 1 raises
    :class:`RegistryError`.
    """
    if keep < 1:
        raise RegistryError(f"retention keeps at least 1 version; found {keep}")
    deleted = []
    name = registered_model(deployment)
    present = {int(v.version) for v in client.search_model_versions(f"name = '{name}'")}
    for version in ledger.discard(deployment, keep):
        if version.number in present:
            _delete(client, version)
            deleted.append(version)
    if deleted:
        _log.info("cleaned away %s of %s", ", ".join(f"version {v.number}" for v in deleted), deployment)
    return deleted


def _delete(client: "MlflowClient", version: Version) -> None:
    name, number = registered_model(version.deployment), str(version.number)
    found = client.get_model_version(name, number)
    delete(client, found.source, found.tags.get(MODEL_TAG))
    client.delete_model_version(name, number)
