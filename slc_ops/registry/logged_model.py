"""MLflow 3's LoggedModel of a version: it owns the files and links data sets and metrics to it."""

from pathlib import Path
from typing import TYPE_CHECKING

from slc_ops.base.errors import RegistryError
from slc_ops.base.files import canonical_json, digest_json
from slc_ops.registry.publication import KEY_TAG, Publication

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Dataset, LoggedModel, Run

MODEL_TAG = "logged_model"
"""Tag of a version: the id of its LoggedModel. A separate registry has no other link to it."""

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


def delete(client: "MlflowClient", source: str, model_id: str | None) -> None:
    """Delete a version's files and its LoggedModel."""
    from mlflow.exceptions import MlflowException
    from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

    parent, _, last = source.rstrip("/").rpartition("/")
    get_artifact_repository(parent, tracking_uri=client.tracking_uri).delete_artifacts(last)
    if model_id is not None:
        try:
            client.delete_logged_model(model_id)
        except MlflowException as error:
            if error.error_code != "RESOURCE_DOES_NOT_EXIST":
                raise
