"""Publish: one run, one version, all evidence, and no alias before verification."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from slc_ops.base.errors import ParameterSetError, RegistryError, SlcError
from slc_ops.registry import Registry
from slc_ops.settings.environment import Installation
from tests.registry.factory import WEEKS, files_of, no_file_above, parameter_set, publication, read_aliases


def test_publishing_twice_gives_one_run_and_one_version(registry: Registry, parameters: Path) -> None:
    first = registry.publish(publication(parameters))
    second = Registry.open(registry.installation).publish(publication(parameters))
    assert first == second
    assert len(registry.client.search_model_versions("name = 'slc-demo'")) == 1
    assert len(_runs(registry)) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"window": WEEKS[1]},
        {"input_digest": "b" * 64},
        {"config_digest": "d" * 64},
        {"code_version": "2"},
        {"deployment": "other"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_another_key_gives_another_version(
    registry: Registry, parameters: Path, change: dict[str, object]
) -> None:
    first = registry.publish(publication(parameters))
    second = registry.publish(publication(parameters, **change))
    assert (first.key, first.run_id) != (second.key, second.run_id)


def test_another_method_gives_another_version(registry: Registry, parameters: Path, tmp_path: Path) -> None:
    platt = parameter_set(tmp_path / "platt", method="platt")
    assert registry.publish(publication(parameters)).number == 1
    assert registry.publish(publication(platt, method="platt")).number == 2


def test_the_run_contains_the_evidence(registry: Registry, parameters: Path, tmp_path: Path) -> None:
    figures = tmp_path / "figures"
    figures.mkdir()
    (figures / "gain.png").write_bytes(b"\x89PNG")
    (tmp_path / "report.html").write_text("<html></html>")
    artifacts = {"report": tmp_path / "report.html", "figures": figures}
    version = registry.publish(publication(parameters, artifacts=artifacts))

    client = registry.client
    run = client.get_run(version.run_id)
    assert run.info.status == "FINISHED"
    assert run.data.metrics == {"auc": 0.71, "nll": 0.55, "confirm.auc": 0.70}
    assert "a" * 32 in run.inputs.dataset_inputs[0].dataset.source
    stored = {entry.path for entry in client.list_artifacts(version.run_id)}
    assert stored == {"figures", "report", "verdict.json"}
    verdict = Path(client.download_artifacts(version.run_id, "verdict.json", str(tmp_path)))
    assert json.loads(verdict.read_text())["sentence"] == "better on every fold"


def test_a_version_has_the_tags_of_the_contract(registry: Registry, parameters: Path) -> None:
    reasons = [{"code": "gain", "sentence": "AUC rose."}, {"code": "nll", "sentence": "NLL fell."}]
    sent = publication(parameters, verdict={"verdict": "promote", "sentence": "Better.", "reasons": reasons})
    found = registry.client.get_model_version("slc-demo", str(registry.publish(sent).number))
    assert found.tags["verdict_sentence"] == "Better."
    assert found.tags["verdict_reasons"] == "AUC rose. · NLL fell."
    tags = {name: found.tags[name] for name in ("window_start", "window_end", "method", "verdict")}
    assert tags == {
        "window_start": "2026-01-05T00:00:00+00:00",
        "window_end": "2026-01-12T00:00:00+00:00",
        "method": "slc",
        "verdict": "promote",
    }
    assert found.tags["idempotency_key"] == sent.key


def test_a_new_version_becomes_the_challenger(registry: Registry, parameters: Path) -> None:
    version = registry.publish(publication(parameters))
    challenger = registry.client.get_model_version_by_alias("slc-demo", "challenger")
    assert int(challenger.version) == version.number
    assert registry.champion("demo") is None


def test_a_backfill_does_not_replace_a_newer_challenger(registry: Registry, parameters: Path) -> None:
    newer = registry.publish(publication(parameters, window=WEEKS[3]))
    registry.publish(publication(parameters, window=WEEKS[1]))
    assert registry.challenger("demo") == newer


@pytest.mark.parametrize("allow", [None, "False"])
def test_a_version_loads_as_pyfunc_without_pickle(
    registry: Registry, parameters: Path, monkeypatch: pytest.MonkeyPatch, allow: str | None
) -> None:
    import mlflow
    import pandas as pd

    from slc_ops.parameters.parameter_set import ParameterSet

    if allow is not None:
        monkeypatch.setenv("MLFLOW_ALLOW_PICKLE_DESERIALIZATION", allow)
    version = registry.publish(publication(parameters))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", registry.installation.tracking_uri)
    mlflow.set_tracking_uri(registry.installation.tracking_uri)
    try:
        model = mlflow.pyfunc.load_model(f"models:/slc-demo/{version.number}")
    finally:
        mlflow.set_tracking_uri(None)
    items, logits = ["item-3", "item-9", "never seen"], [0.2, -1.0, 2.0]
    answer = model.predict(pd.DataFrame({"item_id": items, "logit": logits}))
    expected = ParameterSet.read(parameters).correct(items, logits)
    assert np.abs(answer["p_corrected"].to_numpy() - expected).max() <= 1e-12
    probability = 1 / (1 + np.exp(-np.array(logits)))
    by_probability = model.predict(pd.DataFrame({"item_id": items, "probability": probability}))
    assert np.abs(by_probability["p_corrected"].to_numpy() - expected).max() <= 1e-12


def test_the_artifacts_contain_no_pickle(registry: Registry, parameters: Path, tmp_path: Path) -> None:
    version = registry.publish(publication(parameters))
    model = files_of(registry, version).parents[1]
    assert not [path for path in model.rglob("*") if path.suffix in (".pkl", ".pickle", ".joblib")]
    assert "python_model.pkl" not in (model / "MLmodel").read_text()


def test_a_signature_follows_the_type_of_the_ids(
    registry: Registry, parameters: Path, tmp_path: Path
) -> None:
    from mlflow.models import Model

    integers = parameter_set(tmp_path / "integers", integer_ids=True)
    kinds = []
    for source, code in ((parameters, "1"), (integers, "2")):
        version = registry.publish(publication(source, code_version=code))
        schema = Model.load(files_of(registry, version).parents[1]).get_input_schema()
        kinds.append(str(schema.input_dict()["item_id"].type))
    assert kinds == ["DataType.string", "DataType.long"]


def test_altered_parameters_are_refused_without_a_version(
    registry: Registry, parameters: Path, tmp_path: Path
) -> None:
    altered = tmp_path / "altered"
    shutil.copytree(parameters, altered)
    (altered / "item.parquet").write_bytes((parameters / "item.parquet").read_bytes() + b" ")
    with pytest.raises(ParameterSetError, match="digest"):
        registry.publish(publication(altered))
    assert registry.client.search_model_versions("name = 'slc-demo'") == []
    assert registry.client.get_experiment_by_name("slc-demo") is None
    assert registry.status()["deployments"] == {}


def test_a_directory_without_parameters_is_refused(registry: Registry, tmp_path: Path) -> None:
    with pytest.raises(ParameterSetError, match=r"params\.json is missing"):
        registry.publish(publication(tmp_path))


def test_parameters_of_another_method_are_refused(registry: Registry, parameters: Path) -> None:
    with pytest.raises(ParameterSetError, match=r"'slc'.*'platt'"):
        registry.publish(publication(parameters, method="platt"))


def test_a_missing_artifact_is_named(registry: Registry, parameters: Path, tmp_path: Path) -> None:
    with pytest.raises(RegistryError, match=r"artifact 'report'.*nowhere\.html"):
        registry.publish(publication(parameters, artifacts={"report": tmp_path / "nowhere.html"}))


@pytest.mark.parametrize("name", ["a/b", "..", "a b", "a'b", 'a"b', "", "Demo", "a" * 64, "naïve", "-a"])
def test_names_with_path_separators_are_refused(parameters: Path, name: str) -> None:
    with pytest.raises(RegistryError, match="is not a deployment name"):
        publication(parameters, deployment=name)


@pytest.mark.parametrize("verdict", [{}, {"verdict": "maybe"}, {"verdict": None}])
def test_a_publication_without_a_verdict_is_refused(parameters: Path, verdict: dict[str, object]) -> None:
    with pytest.raises(RegistryError, match="verdict"):
        publication(parameters, verdict=verdict)


def test_a_metric_of_nan_is_refused(parameters: Path) -> None:
    with pytest.raises(RegistryError, match="NaN"):
        publication(parameters, metrics={"auc": float("nan")})


@pytest.mark.slow
def test_telemetry_is_off_before_mlflow_is_imported(installation: Installation) -> None:
    code = f"""
import os, pathlib, sys
class Witness:
    def find_spec(self, name, path=None, target=None):
        if name == "mlflow":
            print(os.environ.get("MLFLOW_DISABLE_TELEMETRY"))
sys.meta_path.insert(0, Witness())
from slc_ops.registry import Registry
from tests.registry.factory import installation_in
Registry.open(installation_in(pathlib.Path({str(installation.home)!r}))).client
"""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("MLFLOW_", "DO_NOT"))}
    root = Path(__file__).parents[2]
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root, env=env
    )
    assert result.stdout.split() == ["true"]


def test_a_full_disk_gives_a_typed_error_and_the_next_attempt_completes_the_run(
    registry: Registry, parameters: Path
) -> None:
    registry.publish(publication(parameters))
    with no_file_above(300), pytest.raises(SlcError):
        registry.publish(publication(parameters, window=WEEKS[1]))
    assert read_aliases(registry.client, "demo") == {"challenger": 1}
    assert registry.publish(publication(parameters, window=WEEKS[1])).number == 2
    assert len(_runs(registry)) == 2


def _runs(registry: Registry) -> list[object]:
    experiment = registry.client.get_experiment_by_name("slc-demo")
    return list(registry.client.search_runs([experiment.experiment_id]))
