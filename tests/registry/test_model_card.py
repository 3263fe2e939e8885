"""What a version says of itself."""

from pathlib import Path

from slc_ops.base.files import write_json
from slc_ops.parameters.parameter_set import ParameterSet, PriorMean
from slc_ops.registry import Registry
from slc_ops.registry.model_card import LENGTH, model_card
from tests.registry.factory import publication


def card(**changes: object) -> str:
    values: dict[str, object] = {
        "deployment": "demo", "method": "slc", "window": "2026-01-05/2026-01-12", "verdict": "promote",
        "sentence": "better", "reasons": ["passes"], "figures": {"auc": 0.7}, "slices": {},
        "data": {"code": "1"}, "pages": "#/x", "artifacts": ["report"],
    }  # fmt: skip
    return model_card(**values | changes)  # type: ignore[arg-type]


def test_the_card_says_what_for_whom_evidence_limits_slices_data_and_code() -> None:
    gain = {"estimate": -0.02, "low": -0.03, "high": -0.01}
    text = card(slices={"density:sparse": gain, "group:empty": {"estimate": None}})
    for part in ("**What.**", "**For whom.**", "**Evidence.**", "**Limits.**", "**Data and code.**"):
        assert part in text
    assert "| density:sparse | -0.0200 | -0.0300 | -0.0100 |" in text
    assert "group:empty" not in text


def test_the_card_says_the_two_decisions_before_everything_else() -> None:
    text = card(decisions={"Which method serves": "slc goes on.", "Its parameters": ""})
    assert text.index("**Which method serves.** slc goes on.") < text.index("**What.**")
    assert "Its parameters" not in text  # of a verdict that has no such decision


def test_a_card_fits_into_mlflow() -> None:
    assert len(card(reasons=["x" * 400] * 40)) == LENGTH


def test_a_published_version_carries_its_card(registry: Registry, parameters: Path, tmp_path: Path) -> None:
    gain = {"nll": {"estimate": -0.02, "low": -0.03, "high": -0.01}}
    write_json(tmp_path / "b.json", {"slice_differences": {"slc": {"density:sparse": gain}}})
    version = registry.publish(publication(parameters, artifacts={"backtest": tmp_path / "b.json"}))
    said = registry.client.get_model_version("slc-demo", str(version.number)).description
    assert "**For whom.**" in said
    assert "| density:sparse | -0.0200" in said


def test_a_warm_start_is_on_the_card(registry: Registry, parameters: Path, tmp_path: Path) -> None:
    mean = PriorMean("gru-7", 0.5, 0.0123)
    ParameterSet.read(parameters).with_provenance(prior_mean=mean).write(tmp_path / "warm")
    version = registry.publish(publication(tmp_path / "warm"))
    said = registry.client.get_model_version("slc-demo", str(version.number)).description
    assert "**Warm start.** Begins from 0.5 of the offsets of backbone gru-7: NLL 0.0123 lower" in said
