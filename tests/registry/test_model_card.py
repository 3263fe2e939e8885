"""The model card of a version."""

from pathlib import Path
from typing import Any

from slc_ops.base.files import write_json
from slc_ops.parameters.parameter_set import ParameterSet, PriorMean
from slc_ops.registry import Registry
from slc_ops.registry.model_card import LENGTH, model_card
from tests.evidence.worlds import evidence_files
from tests.registry.factory import publication


def card(parameters: Path, tmp_path: Path, slices: dict[str, Any] | None = None, **verdict: Any) -> str:
    said = {"verdict": "promote", "sentence": "better", "reasons": ["passes"], **verdict}
    slices = {name: {"nll": gain} for name, gain in (slices or {}).items()}
    found = {**evidence_files()[0], "slice_differences": {"slc": slices}}
    write_json(tmp_path / "backtest.json", found)
    artifacts = {"backtest": tmp_path / "backtest.json"}
    return model_card(publication(parameters, verdict=said, artifacts=artifacts), "#/x")


def test_the_card_names_purpose_users_evidence_limits_slices_data_and_code(
    parameters: Path, tmp_path: Path
) -> None:
    gain = {"estimate": -0.02, "low": -0.03, "high": -0.01}
    text = card(parameters, tmp_path, {"density:sparse": gain, "group:empty": {"estimate": None}})
    for part in ("**What.**", "**For whom.**", "**Evidence.**", "**Limits.**", "**Data and code.**"):
        assert part in text
    assert "| density:sparse | -0.0200 | -0.0300 | -0.0100 |" in text
    assert "group:empty" not in text


def test_the_card_starts_with_the_decisions(parameters: Path, tmp_path: Path) -> None:
    decision = {"method": "slc", "current": "slc", "statistics": {}}
    text = card(parameters, tmp_path, decision=decision)
    assert (
        text.index("**Which method serves.**") < text.index("**Its parameters.**") < text.index("**What.**")
    )
    assert "Its parameters" not in card(parameters, tmp_path)  # a verdict without a decision


def test_a_card_fits_mlflows_length_limit(parameters: Path, tmp_path: Path) -> None:
    assert len(card(parameters, tmp_path, reasons=["x" * 400] * 40)) == LENGTH


def test_a_published_version_has_its_card(registry: Registry, parameters: Path, tmp_path: Path) -> None:
    gain = {"nll": {"estimate": -0.02, "low": -0.03, "high": -0.01}}
    found = {**evidence_files()[0], "slice_differences": {"slc": {"density:sparse": gain}}}
    write_json(tmp_path / "b.json", found)
    version = registry.publish(publication(parameters, artifacts={"backtest": tmp_path / "b.json"}))
    said = registry.client.get_model_version("slc-demo", str(version.number)).description
    assert "**For whom.**" in said
    assert "| density:sparse | -0.0200" in said


def test_a_warm_start_is_on_the_card(registry: Registry, parameters: Path, tmp_path: Path) -> None:
    mean = PriorMean("gru-7", 0.5, 0.0123)
    ParameterSet.read(parameters).with_provenance(prior_mean=mean).write(tmp_path / "warm")
    version = registry.publish(publication(tmp_path / "warm"))
    said = registry.client.get_model_version("slc-demo", str(version.number)).description
    assert (
        "**Warm start.** Begins from 0.5 of the offsets of backbone gru-7: held-out NLL lower by 0.0123"
        in said
    )
