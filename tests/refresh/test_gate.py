"""The gate without Airflow: who is proposed, who is held, and what the approver reads."""

from pathlib import Path
from typing import Any

import pytest

from slc_ops.base.errors import PromotionRefused
from slc_ops.base.files import write_json
from slc_ops.base.window import Window
from slc_ops.refresh.gate import evidence_text, promote, propose
from slc_ops.refresh.plan import Plan, PlannedWindow
from slc_ops.registry import Registry
from slc_ops.settings.deployments import Places
from tests.registry.factory import WEEKS, parameter_set, publication

GAIN = {
    "auc": {"estimate": 0.02, "low": 0.01, "high": 0.03},
    "nll": {"estimate": -0.01, "low": -0.02, "high": -0.005},
}


@pytest.fixture(scope="module")
def parameters(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return parameter_set(tmp_path_factory.mktemp("set") / "parameters")


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Places:
    monkeypatch.setenv("SLC_OPS_HOME", str(tmp_path))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    return Places.from_environment()


def refreshed(
    places: Places, parameters: Path, week: int, verdict: str = "promote", champion: int | None = None
) -> Plan:
    """A finished refresh of one week: its verdict on disk, its version in a real registry."""
    window: Window = WEEKS[week]
    ruling: dict[str, Any] = {
        "verdict": verdict,
        "method": "slc",
        "sentence": f"{verdict} slc",
        "reasons": [{"sentence": "it ranks better than Platt"}],
        "notes": ["one week was left out"],
        "temporal_tracking": "not viable",
        "confirmation": {"against": {"platt": GAIN}, "champion": {"version": champion}},
    }
    version = Registry.open(places).publish(publication(parameters, window=window, verdict=ruling))
    directory = places.refreshes("demo") / window.key / f"{week:016x}"
    write_json(directory / "verdict.json", ruling)
    write_json(directory / "version.json", {"version": version.number, "run_id": version.run_id})
    checked = {"status": "warned", "rows": 1200, "quarantined": 3}
    planned = PlannedWindow(window, directory / "log.parquet", "digest", checked)
    return Plan("demo", window, (planned,), (), {}, "input", "config", "1", directory)


def test_a_supported_version_is_proposed_and_promoted(places: Places, parameters: Path) -> None:
    proposal = propose(places, refreshed(places, parameters, 0), "auto")

    assert proposal.hold is None
    assert (
        promote(places, proposal, actor="the schedule", automatic=True) == "version 1 is the champion of demo"
    )
    (move,) = Registry.open(places).history("demo")
    assert (move.actor, move.reason) == ("the schedule", "promote slc")


@pytest.mark.parametrize("gate", ["auto", "manual", "never"])
def test_a_backfill_is_held_at_every_gate(places: Places, parameters: Path, gate: str) -> None:
    proposal = propose(places, refreshed(places, parameters, 0), gate, backfill=True)

    assert proposal.hold == "a backfill moves no champion"
    with pytest.raises(PromotionRefused, match="backfill"):
        promote(places, proposal, actor="the schedule", automatic=True)
    assert Registry.open(places).champion("demo") is None


@pytest.mark.parametrize(
    ("gate", "verdict", "why"),
    [
        ("never", "promote", "slc_promote"),
        ("auto", "hold", "hold slc"),
        ("manual", "reject", "reject slc"),
    ],
)
def test_gate_and_verdict_can_hold(
    places: Places, parameters: Path, gate: str, verdict: str, why: str
) -> None:
    hold = propose(places, refreshed(places, parameters, 0, verdict), gate).hold

    assert hold is not None
    assert why in hold


def test_an_older_week_is_held_when_a_newer_one_reigns(places: Places, parameters: Path) -> None:
    promote(places, propose(places, refreshed(places, parameters, 1), "auto"), actor="ann", automatic=False)

    hold = propose(places, refreshed(places, parameters, 0), "auto").hold

    assert hold is not None
    assert "an older window never replaces a newer one" in hold


def test_the_reigning_version_is_not_asked_about_again_but_may_be_promoted_again(
    places: Places, parameters: Path
) -> None:
    plan = refreshed(places, parameters, 0)
    promote(places, propose(places, plan, "auto"), actor="ann", automatic=False)

    again = propose(places, plan, "auto")

    assert again.hold == "it is the champion already"
    promote(places, again, actor="a retried task", automatic=True)
    assert len(Registry.open(places).history("demo")) == 1


def test_an_approval_does_not_outlive_the_champion_it_was_about(places: Places, parameters: Path) -> None:
    first = refreshed(places, parameters, 0)
    promote(places, propose(places, first, "auto"), actor="ann", automatic=False)
    asked = propose(places, refreshed(places, parameters, 2, champion=1), "manual")
    promote(
        places,
        propose(places, refreshed(places, parameters, 1, champion=1), "manual"),
        actor="bob",
        automatic=False,
    )

    with pytest.raises(PromotionRefused, match="decide again"):
        promote(places, asked, actor="ann", automatic=False)


def test_the_evidence_says_what_a_person_needs(places: Places, parameters: Path) -> None:
    plan = refreshed(places, parameters, 0)

    text = evidence_text(plan, propose(places, plan, "manual"))

    assert "**promote slc**" in text
    assert "| platt | +0.0200 [+0.0100, +0.0300] | −0.0100 [−0.0200, −0.0050] |" in text
    assert "- one week was left out" in text
    assert "Validation: warned, 1200 rows, 3 quarantined." in text
