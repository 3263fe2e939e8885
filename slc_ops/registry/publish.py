"""Publish once: one run and one version per idempotency key; after a crash the next call completes them.

Every call either searches for its object before creating it (the run by its tag, the version by its run) or
writes the same values again (tags, metrics with the window's end as their timestamp, artifacts under fixed
names). Restarted at any point, the sequence yields the same run and the same version.
"""

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from slc_ops.base.errors import ParameterSetError, RegistryError
from slc_ops.base.files import write_json
from slc_ops.base.names import model_name
from slc_ops.parameters import IN_MODEL
from slc_ops.registry.logged_model import (
    MODEL_TAG,
    VERSION_TAG,
    check_reachable,
    data_sets,
    download,
    logged_model,
)
from slc_ops.registry.model import write_model
from slc_ops.registry.model_card import LENGTH, flat, model_card, reasons
from slc_ops.registry.publication import EVALUATION, KEY_TAG, VERDICT, Publication, Version, digest_of_set
from slc_ops.registry.tracking import experiment
from slc_ops.settings.environment import Installation, registered_model

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import LoggedModel, Run

    from slc_ops.parameters.parameter_set import ParameterSet


def publish(client: "MlflowClient", installation: Installation, publication: Publication) -> Version:
    """Write a publication's run, model and version to MLflow; no alias changes."""
    parameters = _verified(publication)
    apart = installation.registry_uri != installation.tracking_uri
    with tempfile.TemporaryDirectory(prefix="slc-publish-") as scratch:
        files = Path(scratch, "model")
        write_model(publication.parameters, parameters, files)
        run = _run(client, experiment(client, installation, model_name(publication.deployment)), publication)
        run_id: str = run.info.run_id
        model = logged_model(client, run, publication)
        if apart:
            check_reachable(model)
        _log_figures(client, run_id, publication, model.model_id)
        _log_evidence(client, run_id, publication, Path(scratch))
        client.log_model_artifacts(model.model_id, str(files))
        _read_back(client, model, publication, Path(scratch, "read-back"))
        client.finalize_logged_model(model.model_id, "READY")
    number = _version(client, run, model, publication, apart=apart)
    said = f"{registered_model(publication.deployment)}/{number}"
    client.set_logged_model_tags(model.model_id, {VERSION_TAG: said})
    client.set_terminated(run_id, "FINISHED")
    return publication.version(number, run_id)


def restate(client: "MlflowClient", version: Version, publication: Publication) -> None:
    """Replace the verdict in the run and in the version's tags; everything else remains as published."""
    with tempfile.TemporaryDirectory(prefix="slc-publish-") as scratch:
        _log_evidence(client, version.run_id, publication, Path(scratch))
    for name, value in _tags(publication).items():
        client.set_tag(version.run_id, name, value)
        client.set_model_version_tag(registered_model(version.deployment), str(version.number), name, value)


def _tags(publication: Publication) -> dict[str, str]:
    window = publication.window.as_dict()
    return {
        "window_start": window["start"],
        "window_end": window["end"],
        "method": publication.method,
        "verdict": str(publication.verdict["verdict"]),
        "verdict_sentence": str(publication.verdict.get("sentence", ""))[:LENGTH],
        "verdict_reasons": " · ".join(reasons(publication.verdict))[:LENGTH],
        KEY_TAG: publication.key,
    }


def _run(client: "MlflowClient", experiment_id: str, publication: Publication) -> "Run":
    found = client.search_runs([experiment_id], f"tags.{KEY_TAG} = '{publication.key}'", max_results=2)
    if len(found) > 1:
        raise RegistryError(
            f"two runs carry the key {publication.key[:12]}…: {', '.join(r.info.run_id for r in found)}; "
            "delete the wrong one in MLflow, then publish again"
        )
    if found:
        return found[0]
    name = f"{publication.method} {publication.window}"
    return client.create_run(experiment_id, tags=_tags(publication), run_name=name)


def _log_figures(client: "MlflowClient", run_id: str, publication: Publication, model_id: str) -> None:
    from mlflow.entities import DatasetInput, InputTag, Metric, Param

    known = data_sets(publication)
    inputs = [
        DatasetInput(data, [InputTag("mlflow.data.context", context)]) for context, data in known.items()
    ]
    client.log_inputs(run_id, inputs)
    at = int(publication.window.end.timestamp() * 1000)  # a retry writes the same point instead of a new one
    of = known[EVALUATION]
    metrics = [
        Metric(name, value, at, 0, model_id, of.name, of.digest, run_id)
        for name, value in flat(publication.metrics)
    ]
    params = [Param(name, value) for name, value in publication.params.items()]
    client.log_batch(run_id, metrics=metrics, params=params)


def _log_evidence(client: "MlflowClient", run_id: str, publication: Publication, scratch: Path) -> None:
    verdict = scratch / VERDICT
    write_json(verdict, dict(publication.verdict))
    client.log_artifact(run_id, str(verdict))
    for name, path in publication.artifacts.items():
        if path.is_dir():
            client.log_artifacts(run_id, str(path), name)
        elif path.is_file():
            client.log_artifact(run_id, str(path), name)
        else:
            raise RegistryError(f"the artifact {name!r} of this publication is missing: no file {path}")


def _verified(publication: Publication) -> "ParameterSet":
    """Read and verify the parameter set as a server does (digests, golden vectors)."""
    from slc_ops.parameters.parameter_set import ParameterSet

    found = ParameterSet.read(publication.parameters)
    if found.method != publication.method:
        raise ParameterSetError(
            f"the parameter set is of method {found.method!r}, the publication says {publication.method!r}"
        )
    return found


def _read_back(client: "MlflowClient", model: "LoggedModel", publication: Publication, into: Path) -> None:
    """Raise :class:`ParameterSetError` unless the store has the verified set, byte for byte."""
    stored = download(client, model.artifact_location, IN_MODEL, into)
    if digest_of_set(stored) != digest_of_set(publication.parameters):
        raise ParameterSetError(
            f"the model {model.model_id} holds another parameter set than {publication.parameters} after "
            "writing it; check the artifact store, then publish again"
        )


def _version(
    client: "MlflowClient", run: "Run", model: "LoggedModel", publication: Publication, *, apart: bool
) -> int:
    """Return the model's registered version; ``apart`` if the registry is not the tracking server."""
    from mlflow.exceptions import MlflowException

    name = registered_model(publication.deployment)
    try:
        client.create_registered_model(
            name, description=f"Correction of {publication.deployment}, refreshed window by window"
        )
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise
    found = client.search_model_versions(f"name = '{name}' and run_id = '{run.info.run_id}'")
    if found:
        return int(found[0].version)
    pages = f"#/experiments/{run.info.experiment_id}/runs/{run.info.run_id}/artifacts"
    created = client.create_model_version(
        name,
        source=model.artifact_location,
        run_id=run.info.run_id,
        tags=_tags(publication) | {MODEL_TAG: model.model_id},
        model_id=None if apart else model.model_id,  # a separate registry does not have the model
        description=model_card(publication, pages),
    )
    return int(created.version)
