"""MLflow 3's LoggedModel of a version: it owns the files and links data sets and metrics to it."""

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from slc_ops.base.digests import canonical_json, digest_json
from slc_ops.base.errors import RegistryError
from slc_ops.registry.ledger import Ledger
from slc_ops.registry.publication import KEY_TAG, Publication, Version
from slc_ops.settings.environment import registered_model

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Dataset, LoggedModel, Run

_log = logging.getLogger(__name__)

MODEL_TAG = "logged_model"
"""Tag of a version: the id of its LoggedModel. A separate registry has no other link to it."""

KEPT = 50
"""Number of versions that were never champion, apart from the challenger; older ones are deleted."""

VERSION_TAG = "registered_version"
"""Tag of a LoggedModel: the version created from it."""


def logged_model(client: "MlflowClient", run: "Run", publication: Publication) -> "LoggedModel":
    """Return the publication's LoggedModel, found by its run or created."""
    experiment = run.info.experiment_id
    found = client.search_logged_models([experiment], filter_string=f"source_run_id = '{run.info.run_id}'")
    if found:
        return found[0]
    return client.create_logged_model(
        experiment,
        name=f"{publication.method}-{publication.window.key}",
        source_run_id=run.info.run_id,
        tags={KEY_TAG: publication.key},
        params=publication.params,
        model_type="slc_ops",
    )


def data_sets(publication: Publication) -> "dict[str, Dataset]":
    """Return MLflow data sets by context: the windows of the fit and those of the metrics."""
    from mlflow.entities import Dataset

    name = publication.deployment
    return {
        context: Dataset(
            name=f"{name} {context}",
            digest=digest_json(dict(windows))[:32],  # MLflow's column holds 36 characters
            source_type="slc_ops",
            source=canonical_json({"deployment": name, "windows": dict(windows)}),
        )
        for context, windows in publication.data.items()
    }


def check_reachable(model: "LoggedModel") -> None:
    """Raise :class:`RegistryError` if a separate registry cannot reach the tracking server's artifacts."""
    if str(model.artifact_location).startswith("mlflow-artifacts:"):
        raise RegistryError(
            "MLFLOW_REGISTRY_URI is another server than MLFLOW_TRACKING_URI, which keeps the artifacts to "
            "itself (mlflow-artifacts:), so a version there could not name them; start the tracking server "
            "with --no-serve-artifacts and --default-artifact-root s3://…"
        )


def download(client: "MlflowClient", source: str, path: str, into: Path) -> Path:
    """Download ``path`` below a version's ``source`` into ``into``; return its local path."""
    from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

    into.mkdir(parents=True, exist_ok=True)
    repository = get_artifact_repository(source, tracking_uri=client.tracking_uri)
    return Path(repository.download_artifacts(path, str(into)))


def clean(client: "MlflowClient", ledger: Ledger, deployment: str) -> list[Version]:
    """Delete versions that were never champion, beyond :data:`KEPT`, and their files; return them.

    They are marked in the ledger first: marked versions cannot be promoted, so deletion cannot affect a
    champion. The ledger's rows remain, and so do the runs with their metrics, report and verdict.
    """
    deleted = []
    name = registered_model(deployment)
    present = {int(v.version) for v in client.search_model_versions(f"name = '{name}'")}
    for version in ledger.discard(deployment, KEPT):
        if version.number in present:
            _delete(client, name, str(version.number))
            deleted.append(version)
    if deleted:
        _log.info("deleted %s of %s", ", ".join(f"version {v.number}" for v in deleted), deployment)
    return deleted


def _delete(client: "MlflowClient", name: str, number: str) -> None:
    """Delete a version, its files and its LoggedModel."""
    from mlflow.exceptions import MlflowException
    from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

    found = client.get_model_version(name, number)
    parent, _, last = found.source.rstrip("/").rpartition("/")
    get_artifact_repository(parent, tracking_uri=client.tracking_uri).delete_artifacts(last)
    if (model_id := found.tags.get(MODEL_TAG)) is not None:
        try:
            client.delete_logged_model(model_id)
        except MlflowException as error:
            if error.error_code != "RESOURCE_DOES_NOT_EXIST":
                raise
    client.delete_model_version(name, number)
