"""A corrector with rows of another backbone and with unseen items."""

import logging
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from slc_ops.base.errors import BackboneMismatch, InputError, ParameterSetError
from slc_ops.parameters.parameter_set import ParameterSet
from slc_ops.serving import Corrector
from slc_ops.serving.frames import correct_frame

ITEMS, LOGITS = ["item-3", "item-9"], [0.2, -1.0]
FROZEN = (1 / (1 + np.exp(-np.array(LOGITS)))).tolist()


def fitted(
    parameters: Path, directory: Path, rule: str | None = None, backbone: str | None = "gru-7"
) -> Path:
    found = ParameterSet.read(parameters)
    found.with_provenance(backbone_version=backbone, on_backbone_mismatch=rule).write(directory)
    return directory


def test_rows_of_another_backbone_get_the_frozen_probability_and_a_warning(
    parameters: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    corrector = Corrector.from_directory(fitted(parameters, tmp_path / "set"))
    own = corrector.correct(ITEMS, LOGITS, backbone_version="gru-7").tolist()
    assert own == corrector.correct(ITEMS, LOGITS).tolist() != FROZEN
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            found = corrector.correct(ITEMS, LOGITS, backbone_version="gru-8").tolist()
    assert found == pytest.approx(FROZEN, abs=1e-15)
    assert corrector.correct(ITEMS[0], LOGITS[0], backbone_version="gru-8") == pytest.approx(FROZEN[0])
    (line,) = caplog.messages
    assert "fitted for the backbone 'gru-7', rows came from 'gru-8': they get the frozen probability" in line
    health = corrector.health()
    assert (health["backbone_version"], health["on_backbone_mismatch"]) == ("gru-7", "frozen")
    assert health["backbone_mismatch"] == {"rows": 7, "versions": ["gru-8"]}
    assert any("gru-8" in warning for warning in health["warnings"])
    assert health["rows"] == 11


def test_the_deployment_may_refuse_or_correct_rows_of_another_backbone(
    parameters: Path, tmp_path: Path
) -> None:
    strict = Corrector.from_directory(fitted(parameters, tmp_path / "strict", "refuse"))
    with pytest.raises(BackboneMismatch, match="refused"):
        strict.correct(ITEMS, LOGITS, backbone_version="gru-8")
    assert strict.health()["backbone_mismatch"]["rows"] == 2
    lenient = Corrector.from_directory(fitted(parameters, tmp_path / "lenient", "serve"))
    corrected = lenient.correct(ITEMS, LOGITS).tolist()
    assert lenient.correct(ITEMS, LOGITS, backbone_version="gru-8").tolist() == corrected
    assert lenient.health()["backbone_mismatch"]["rows"] == 2


def test_a_set_without_a_backbone_corrects_rows_of_any_backbone(parameters: Path, tmp_path: Path) -> None:
    corrector = Corrector.from_directory(fitted(parameters, tmp_path / "set", backbone=None))
    corrected = corrector.correct(ITEMS, LOGITS).tolist()
    assert corrector.correct(ITEMS, LOGITS, backbone_version="gru-8").tolist() == corrected
    assert corrector.health()["backbone_mismatch"]["rows"] == 0


def test_a_backbone_that_is_not_text_is_refused(parameters: Path, tmp_path: Path) -> None:
    corrector = Corrector.from_directory(fitted(parameters, tmp_path / "set"))
    with pytest.raises(InputError, match="expected a text"):
        corrector.correct(ITEMS, LOGITS, backbone_version=["gru-7", "gru-8"])  # type: ignore[call-overload]


def test_a_frame_may_mix_backbones(parameters: Path, tmp_path: Path) -> None:
    corrector = Corrector.from_directory(fitted(parameters, tmp_path / "set"))
    frame = pd.DataFrame({"item_id": ITEMS * 2, "logit": LOGITS * 2}, index=[7, 5, 3, 1])
    frame["backbone_version"] = ["gru-8", "gru-7", None, "gru-8"]
    own = corrector.correct(ITEMS, LOGITS).tolist()
    found = correct_frame(corrector, frame)
    assert found.index.tolist() == [7, 5, 3, 1]
    assert found["p_corrected"].tolist() == pytest.approx([FROZEN[0], own[1], own[0], FROZEN[1]], abs=1e-15)


def test_the_rule_is_stored_only_if_set(parameters: Path, tmp_path: Path) -> None:
    for name, rule in (("plain", None), ("again", None), ("ruled", "serve")):
        fitted(parameters, tmp_path / name, rule)
    plain, again, ruled = (
        (tmp_path / name / "params.json").read_bytes() for name in ("plain", "again", "ruled")
    )
    assert plain == again
    assert b"on_backbone_mismatch" not in plain
    assert b'"on_backbone_mismatch"' in ruled
    with pytest.raises(ParameterSetError, match="on_backbone_mismatch"):
        ParameterSet.read(fitted(parameters, tmp_path / "odd", "sometimes"))


@pytest.mark.parametrize("kind", ["list", "numpy", "arrow", "pandas"])
def test_unknown_items_are_counted_and_named(parameters: Path, kind: str) -> None:
    corrector = Corrector.from_directory(parameters)
    ids = ["item-1", "new-1", "item-2", "new-2"]
    convert = {
        "list": list,
        "numpy": np.array,
        "arrow": pa.array,
        "pandas": lambda x: pd.Series(x, index=[9, 8, 7, 6]),
    }
    corrector.correct(convert[kind](ids), [0.0] * 4)
    corrector.correct("new-1", 0.0)
    found = corrector.health()
    assert found["rows"] == 5
    assert found["unknown"]["item"] == {"rows": 3, "examples": ["new-1", "new-2"]}
    assert found["warnings"] == [], "five rows say nothing yet"


def test_a_call_with_only_unknown_items_logs_a_warning_with_examples(
    parameters: Path, caplog: pytest.LogCaptureFixture
) -> None:
    corrector = Corrector.from_directory(parameters)
    with caplog.at_level(logging.WARNING):
        for _ in range(20):
            corrector.correct(["17", "4"], [0.3, -1.2])
    (line,) = caplog.messages
    assert "2 of 2 rows have item ids that the parameter set does not contain, for example '17', '4'" in line
    assert "40 of 40 rows" in corrector.health()["warnings"][0]


def test_single_rows_log_a_warning_if_most_are_unknown(
    parameters: Path, caplog: pytest.LogCaptureFixture
) -> None:
    corrector = Corrector.from_directory(parameters)
    with caplog.at_level(logging.WARNING):
        for number in range(19):
            corrector.correct(f"new-{number}", 0.0)
        assert caplog.messages == []
        corrector.correct("item-1", 0.0)
        corrector.correct("new-1", 0.0)
    (line,) = caplog.messages
    assert "20 of 21 rows" in line
    assert corrector.health()["unknown"]["item"]["examples"] == [f"new-{number}" for number in range(5)]


def test_a_method_without_items_counts_no_unknown_items(parameters: Path, tmp_path: Path) -> None:
    from tests.registry.factory import parameter_set

    corrector = Corrector.from_directory(parameter_set(tmp_path / "platt", method="platt"))
    corrector.correct(["a", "b"], [0.0, 1.0])
    assert corrector.health()["unknown"] == {}


def test_the_counts_are_prometheus_metrics(parameters: Path, tmp_path: Path) -> None:
    from prometheus_client.parser import text_string_to_metric_families

    corrector = Corrector.from_directory(fitted(parameters, tmp_path / "set", backbone='gru "7"\\'))
    corrector.correct(["item-1", "new"], [0.0, 0.0])
    corrector.correct(ITEMS, LOGITS, backbone_version="gru-8")
    samples = {
        sample.name: sample
        for family in text_string_to_metric_families(corrector.metrics())
        for sample in family.samples
    }
    assert samples["slc_serving_rows_total"].value == 4
    assert samples["slc_serving_unknown_rows_total"].value == 1
    assert samples["slc_serving_backbone_mismatch_rows_total"].value == 2
    assert samples["slc_serving_frozen"].value == 0
    assert samples["slc_serving_info"].labels["backbone_version"] == 'gru "7"\\'


def test_a_database_address_without_mlflow_names_the_package(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['mlflow'] = None\n"
        "from slc_ops.serving import Corrector\n"
        "from slc_ops.base.errors import SlcError\n"
        "try:\n    Corrector.from_registry('sqlite:///x.db', 'demo', interval=None, cache='c')\n"
        "except SlcError as error:\n    print(error)\n"
    )
    said = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=True
    )
    assert said.stdout.strip() == (
        "following sqlite:///x.db, a database of MLflow's, needs more (no mlflow); "
        "run: pip install 'slc-ops[mlflow]'"
    )
