"""The LoggedModel of a version, a registry separate from the runs, and three-level names."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from slc_ops.base.errors import SettingsError
from slc_ops.parameters.parameter_set import ParameterSet
from slc_ops.registry import Registry
from slc_ops.serving import Corrector
from tests.registry.factory import WEEKS, publication, read_aliases

WINDOWS = {
    "training": {"2026-01-05/2026-01-12": "a" * 64, "2026-01-12/2026-01-19": "b" * 64},
    "evaluation": {"2026-01-12/2026-01-19": "b" * 64},
}
ITEMS, LOGITS = ["item-3", "never seen"], [0.2, 2.0]


def test_a_version_has_a_logged_model_with_data_sets_and_metrics(
    registry: Registry, parameters: Path
) -> None:
    version = registry.publish(publication(parameters, data=WINDOWS))

    found = registry.client.get_model_version("slc-demo", str(version.number))
    model = registry.client.get_logged_model(found.tags["logged_model"])
    assert (model.status.value, model.source_run_id) == ("READY", version.run_id)
    assert (model.name, model.tags["registered_version"]) == (f"slc-{WEEKS[0].key}", "slc-demo/1")
    assert model.params["method"] == "slc"
    assert found.source == model.artifact_location
    inputs = registry.client.get_run(version.run_id).inputs.dataset_inputs
    contexts = {each.tags[0].value: each.dataset for each in inputs}
    assert set(contexts) == {"training", "evaluation"}
    for context, data in contexts.items():
        assert json.loads(data.source) == {"deployment": "demo", "windows": WINDOWS[context]}
    of = contexts["evaluation"]
    assert {(each.dataset_name, each.dataset_digest) for each in model.metrics} == {(of.name, of.digest)}
    assert {each.key: each.value for each in model.metrics}["auc"] == version.metrics["auc"]

    again = registry.publish(publication(parameters, data=WINDOWS))
    assert again == version
    assert len(registry.client.search_logged_models([model.experiment_id])) == 1


def test_versions_and_aliases_may_be_in_a_separate_registry(
    registry: Registry, parameters: Path, tmp_path: Path
) -> None:
    apart = f"sqlite:///{tmp_path}/registry.db"
    both = Registry.open(replace(registry.installation, separate_registry=apart))

    version = both.publish(publication(parameters))
    both.promote("demo", version.number, actor="ann", reason="first")

    assert read_aliases(both.client, "demo") == {"champion": version.number}
    assert registry.client.search_registered_models() == [], "where the runs are there is no version"
    assert both.client.get_run(version.run_id).info.status == "FINISHED"
    assert both.verify("demo") == []
    tag = both.client.get_model_version("slc-demo", str(version.number)).tags["logged_model"]
    assert both.client.get_logged_model(tag).source_run_id == version.run_id
    with Corrector.from_registry(apart, "demo", cache=tmp_path / "cache", interval=None) as corrector:
        expected = ParameterSet.read(parameters).correct(ITEMS, LOGITS)
        np.testing.assert_allclose(corrector.correct(ITEMS, LOGITS), expected, atol=1e-12)


def test_a_model_may_have_a_three_level_name(
    registry: Registry, parameters: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLC_OPS_MODEL_SCHEMA", "main.slc")
    version = registry.publish(publication(parameters))
    registry.promote("demo", version.number, actor="ann", reason="first")

    (model,) = registry.client.search_registered_models()
    assert (model.name, model.aliases) == ("main.slc.slc-demo", {"champion": 1})
    uri = registry.installation.tracking_uri
    options = {"cache": tmp_path / "cache", "interval": None, "schema": "main.slc"}
    with Corrector.from_registry(uri, "demo", **options) as corrector:  # type: ignore[arg-type]  # of each kind
        assert corrector.health()["version"] == 1
        registry.retire("demo", actor="ann", reason="a new backbone")
        assert corrector.refresh()
        assert corrector.health()["serves"] == "frozen"
    assert registry.verify("demo") == []


@pytest.mark.parametrize("schema", ["main", "a.b.c", "main.slc/x", ".slc"])
def test_a_registry_schema_has_a_catalog_and_a_schema(
    registry: Registry, parameters: Path, monkeypatch: pytest.MonkeyPatch, schema: str
) -> None:
    monkeypatch.setenv("SLC_OPS_MODEL_SCHEMA", schema)
    with pytest.raises(SettingsError, match="SLC_OPS_MODEL_SCHEMA"):
        registry.publish(publication(parameters))
