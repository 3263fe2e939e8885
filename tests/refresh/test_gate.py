"""The gate without Airflow: which version is proposed or held, and the text for the approver."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from slc_ops.base.errors import PromotionRefused
from slc_ops.base.files import write_json
from slc_ops.base.window import Window
from slc_ops.refresh.files import RefreshFiles
from slc_ops.refresh.gate import evidence_text, promote, promote_if_allowed, propose, renew_meanwhile
from slc_ops.refresh.plan import Plan, PlannedWindow
from slc_ops.refresh.versions import Registered, record_version
from slc_ops.refresh.window_rules import left_out
from slc_ops.registry import Registry
from slc_ops.registry.rules import excluded_by_people
from slc_ops.settings.environment import Installation
from tests.evidence.worlds import evidence_files
from tests.refresh.school import use_home
from tests.registry.factory import WEEKS, copy_home, parameter_set, publication

GAIN = {
    "auc": {"estimate": 0.02, "low": 0.01, "high": 0.03},
    "nll": {"estimate": -0.01, "low": -0.02, "high": -0.005},
}


@pytest.fixture(scope="module")
def parameters(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return parameter_set(tmp_path_factory.mktemp("set") / "parameters")


@pytest.fixture
def installation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Installation:
    """A home with the real ledger; with MLflow only for ``rolled_back``, because the rules do not need it."""
    found = use_home(tmp_path, monkeypatch)
    return replace(found, rehearsal="rolled_back" not in request.fixturenames)


def refreshed(
    installation: Installation,
    parameters: Path,
    week: int,
    verdict: str = "promote",
    champion: int | None = None,
    kind: str = "change",
    method: str = "slc",
    config: str = "c" * 64,
) -> Plan:
    """A finished refresh of one week: its verdict on disk, its version in a real registry."""
    window: Window = WEEKS[week]
    backtest, decided_now = evidence_files()
    ruling: dict[str, Any] = {
        **decided_now,
        "verdict": verdict,
        "kind": kind,
        "method": method,
        "sentence": f"{verdict} {method}",
        "reasons": [{"sentence": "it ranks better than Platt"}],
        "notes": ["one week was left out"],
        "temporal_tracking": "not viable",
        "champion": {**decided_now["champion"], "version": champion, "taken_back": {}},
    }
    made = publication(parameters, window=window, verdict=ruling, method=method, config_digest=config)
    version = Registry.open(installation).publish(made)
    directory = installation.refreshes("demo") / window.key / f"{week:016x}{config[:4]}"
    write_json(directory / "verdict.json", ruling)
    found = backtest["differences"]["slc"]
    gain = {name: {**found["platt"][name], **GAIN[name]} for name in GAIN}
    differences = {"slc": {**found, "platt": {**found["platt"], **gain}}}
    write_json(directory / "backtest.json", {**backtest, "differences": differences})
    decided = Registered(version.number, "decided", method, "parameters", version.run_id, "v")
    record_version(RefreshFiles(directory), decided)
    checked = {"status": "warned", "rows": 1200, "quarantined": 3}
    planned = PlannedWindow(window, directory / "log.parquet", "digest", checked, "rows")
    return Plan("demo", window, (planned,), (), {}, "input", "config", "1", directory)


def test_a_supported_version_is_proposed_and_promoted(installation: Installation, parameters: Path) -> None:
    proposal = propose(installation, refreshed(installation, parameters, 0), "auto")

    assert proposal.hold is None
    assert (
        promote(installation, proposal, actor="the schedule", automatic=True)
        == "version 1 is the champion of demo"
    )
    (move,) = Registry.open(installation).history("demo")
    assert (move.actor, move.reason) == ("the schedule", "promote slc")


@pytest.mark.parametrize("gate", ["auto", "manual", "never"])
def test_a_backfill_is_held_at_every_gate(installation: Installation, parameters: Path, gate: str) -> None:
    proposal = propose(installation, refreshed(installation, parameters, 0), gate, backfill=True)

    assert proposal.hold == "a backfill moves no champion"
    with pytest.raises(PromotionRefused, match="backfill"):
        promote(installation, proposal, actor="the schedule", automatic=True)
    assert Registry.open(installation).champion("demo") is None


@pytest.mark.parametrize(
    ("gate", "verdict", "why"),
    [
        ("never", "promote", "slc_promote"),
        ("auto", "hold", "hold slc"),
        ("manual", "hold", "hold slc"),
    ],
)
def test_the_gate_or_the_verdict_can_hold_a_version(
    installation: Installation, parameters: Path, gate: str, verdict: str, why: str
) -> None:
    hold = propose(installation, refreshed(installation, parameters, 0, verdict), gate).hold

    assert hold is not None
    assert why in hold


def test_an_older_week_is_held_if_the_champion_is_newer(installation: Installation, parameters: Path) -> None:
    promote(
        installation,
        propose(installation, refreshed(installation, parameters, 1), "auto"),
        actor="ann",
        automatic=False,
    )

    hold = propose(installation, refreshed(installation, parameters, 0), "auto").hold

    assert hold is not None
    assert "an older window never replaces a newer one" in hold


def test_the_champion_needs_no_second_approval_and_may_be_promoted_again(
    installation: Installation, parameters: Path
) -> None:
    plan = refreshed(installation, parameters, 0)
    promote(installation, propose(installation, plan, "auto"), actor="ann", automatic=False)

    again = propose(installation, plan, "auto")

    assert again.hold == "it is the champion already"
    promote(installation, again, actor="a retried task", automatic=True)
    assert len(Registry.open(installation).history("demo")) == 1


def test_an_approval_expires_with_the_champion_it_refers_to(
    installation: Installation, parameters: Path
) -> None:
    first = refreshed(installation, parameters, 0)
    promote(installation, propose(installation, first, "auto"), actor="ann", automatic=False)
    asked = propose(installation, refreshed(installation, parameters, 2, champion=1), "manual")
    promote(
        installation,
        propose(installation, refreshed(installation, parameters, 1, champion=1), "manual"),
        actor="bob",
        automatic=False,
    )

    with pytest.raises(PromotionRefused, match="decide again"):
        promote(installation, asked, actor="ann", automatic=False)


def settings(installation: Installation, **changes: Any) -> None:
    entry = {"source": {"kind": "lake", "path": "lake"}, **changes}
    installation.deployments_file.parent.mkdir(parents=True, exist_ok=True)
    installation.deployments_file.write_text(yaml.safe_dump({"deployments": {"demo": entry}}))


@pytest.mark.parametrize(
    ("gate", "renew", "kind", "moves"),
    [
        ("auto", "auto", "renewal", True),
        ("manual", "auto", "renewal", True),
        ("manual", "gate", "renewal", False),
        ("never", "auto", "renewal", False),
        ("auto", "gate", "change", True),
        ("manual", "auto", "change", False),
    ],
)
def test_renewals_and_changes_of_method_have_separate_rules(
    installation: Installation, parameters: Path, gate: str, renew: str, kind: str, moves: bool
) -> None:
    settings(installation, gate=gate, renew=renew)
    first = refreshed(installation, parameters, 0)
    promote(installation, propose(installation, first, "auto"), actor="ann", automatic=False)

    said = promote_if_allowed(installation, refreshed(installation, parameters, 1, champion=1, kind=kind))

    line = Registry.open(installation).history("demo")
    assert [change.to_version for change in line] == ([1, 2] if moves else [1])
    assert line[-1].kind == ("renewal" if moves and kind == "renewal" else "promotion")
    assert ("is the champion of demo" in said) == moves


@pytest.mark.parametrize(("gate", "champion"), [("auto", 1), ("manual", 2)])
def test_renewals_have_a_step_of_their_own_only_where_changes_of_method_need_approval(
    installation: Installation, parameters: Path, gate: str, champion: int
) -> None:
    settings(installation, gate=gate, renew="auto")
    first = refreshed(installation, parameters, 0)
    promote(installation, propose(installation, first, "auto"), actor="ann", automatic=False)
    plan = refreshed(installation, parameters, 1, champion=1, kind="renewal")

    said = renew_meanwhile(installation, plan, actor="the schedule")

    assert said == (None if gate == "auto" else "version 2 is the champion of demo, a renewal of slc")
    assert champion_of(installation) == champion


def test_a_rollback_reverts_a_renewal(installation: Installation, parameters: Path) -> None:
    settings(installation, gate="auto")
    promote(
        installation,
        propose(installation, refreshed(installation, parameters, 0), "auto"),
        actor="ann",
        automatic=False,
    )
    promote_if_allowed(installation, refreshed(installation, parameters, 1, champion=1, kind="renewal"))

    Registry.open(installation).rollback("demo", actor="bob", reason="it looked odd")

    assert [change.kind for change in Registry.open(installation).history("demo")] == [
        "promotion",
        "renewal",
        "rollback",
    ]
    champion = Registry.open(installation).champion("demo")
    assert champion is not None
    assert champion.number == 1


def waiting(installation: Installation, parameters: Path) -> Plan:
    """A pending change of method against champion 1, with the renewal of the serving method."""
    plan = refreshed(installation, parameters, 1, champion=1)
    ruling = {"verdict": "promote", "kind": "renewal", "sentence": "renew", "reasons": []}
    own = publication(parameters, window=WEEKS[1], verdict=ruling, config_digest="d" * 64)
    version = Registry.open(installation).publish(own)
    renewed = Registered(version.number, "renewal", "slc", "renewed-parameters", version.run_id, "v")
    record_version(plan.files, renewed)
    return plan


def test_the_serving_method_is_renewed_while_a_change_is_pending(
    installation: Installation, parameters: Path
) -> None:
    settings(installation, gate="manual")
    promote(
        installation,
        propose(installation, refreshed(installation, parameters, 0), "auto"),
        actor="ann",
        automatic=False,
    )
    plan = waiting(installation, parameters)

    said = promote_if_allowed(installation, plan)
    again = promote_if_allowed(installation, plan)

    assert "version 3 renews slc" in said
    assert "version 2 waits" in said
    assert "version 2 waits" in again
    assert [change.kind for change in Registry.open(installation).history("demo")] == ["promotion", "renewal"]
    # The approval refers to methods, so the renewal by the same refresh does not invalidate it.
    promote(installation, propose(installation, plan, "manual"), actor="ann", automatic=False)
    champion = Registry.open(installation).champion("demo")
    assert champion is not None
    assert champion.number == 2


def test_the_frozen_model_serves_if_the_verdict_says_so(installation: Installation, parameters: Path) -> None:
    settings(installation, gate="auto")
    promote(
        installation,
        propose(installation, refreshed(installation, parameters, 0), "auto"),
        actor="ann",
        automatic=False,
    )
    plan = refreshed(installation, parameters, 1, verdict="reject", champion=1, kind="retire")

    said = promote_if_allowed(installation, plan)

    assert said == "demo has no champion any more; the frozen model serves"
    assert Registry.open(installation).champion("demo") is None
    assert promote_if_allowed(installation, plan) == "there is no champion already"


def test_a_retirement_is_refused_if_the_champion_has_changed(
    installation: Installation, parameters: Path
) -> None:
    settings(installation, gate="auto")
    promote(
        installation,
        propose(installation, refreshed(installation, parameters, 0), "auto"),
        actor="ann",
        automatic=False,
    )
    plan = refreshed(installation, parameters, 1, verdict="reject", champion=1, kind="retire")
    later = refreshed(installation, parameters, 2, champion=1)
    promote(installation, propose(installation, later, "auto"), actor="bob", automatic=False)

    with pytest.raises(PromotionRefused):
        promote_if_allowed(installation, plan)
    assert Registry.open(installation).champion("demo") is not None


def test_the_evidence_gives_the_approver_the_key_figures(
    installation: Installation, parameters: Path
) -> None:
    plan = refreshed(installation, parameters, 0)

    text = evidence_text(plan, propose(installation, plan, "manual"))

    assert "**promote slc**" in text
    assert "| on the newest window, against | AUC | NLL |\n|---|---|---|\n| " in text
    assert "| platt | +0.0200 [+0.0100, +0.0300] | −0.0100 [−0.0200, −0.0050] |" in text
    assert "- one week was left out" in text
    assert "Validation: warned, 1200 rows, 3 quarantined." in text


@pytest.fixture(scope="module")
def platt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return parameter_set(tmp_path_factory.mktemp("platt") / "parameters", method="platt")


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory, parameters: Path, platt: Path) -> Path:
    """A home in which ``platt`` of week 1 serves again: ann rolled back ``slc`` of week 4."""
    home = tmp_path_factory.mktemp("rolled-back")
    with pytest.MonkeyPatch.context() as patch:
        installation = use_home(home, patch)
        settings(installation, gate="auto")
        promote_if_allowed(installation, refreshed(installation, platt, 1, method="platt"))
        promote_if_allowed(installation, refreshed(installation, parameters, 4, champion=1))
        Registry.open(installation).rollback("demo", actor="ann", reason="complaints")
    return home


@pytest.fixture
def rolled_back(installation: Installation, kept: Path) -> Registry:
    """The registry of a copy of that home."""
    copy_home(kept, installation.home)
    return Registry.open(installation)


def champion_of(installation: Installation) -> int | None:
    champion = Registry.open(installation).champion("demo")
    return None if champion is None else champion.number


@pytest.mark.usefixtures("rolled_back")
@pytest.mark.parametrize(
    ("week", "config"),
    [(3, "c" * 64), (4, "d" * 64)],
    ids=["an old week again", "the same week with another setting, row or code"],
)
@pytest.mark.parametrize("gate", ["auto", "manual"])
def test_only_a_refresh_of_a_later_window_may_follow_a_rollback(
    installation: Installation, platt: Path, week: int, config: str, gate: str
) -> None:
    settings(installation, gate=gate, renew="auto")
    plan = refreshed(installation, platt, week, champion=1, kind="renewal", method="platt", config=config)

    said = promote_if_allowed(installation, plan)

    assert champion_of(installation) == 1
    if gate == "auto":
        assert "withdrawn by ann" in said
        assert "until a person promotes it: complaints" in said


@pytest.mark.usefixtures("rolled_back")
def test_later_windows_renew_the_serving_method(installation: Installation, platt: Path) -> None:
    promote_if_allowed(
        installation, refreshed(installation, platt, 5, champion=1, kind="renewal", method="platt")
    )
    assert champion_of(installation) == 3


@pytest.mark.usefixtures("rolled_back")
def test_a_rolled_back_method_returns_only_by_approval(installation: Installation, parameters: Path) -> None:
    said = promote_if_allowed(installation, refreshed(installation, parameters, 5, champion=1))
    assert champion_of(installation) == 1
    assert "slc (version 2, window 2026-02-02/2026-02-09) was withdrawn by ann" in said

    settings(installation, gate="manual")  # then approval is requested and suffices
    again = refreshed(installation, parameters, 6, champion=1)
    promote(installation, propose(installation, again, "manual"), actor="bob", automatic=False)
    assert champion_of(installation) == 4
    settings(installation, gate="auto")  # from then on it is treated like any other method
    promote_if_allowed(installation, refreshed(installation, parameters, 7, champion=4, kind="renewal"))
    assert champion_of(installation) == 5


def test_a_rolled_back_method_waits_for_the_given_number_of_windows(
    installation: Installation, parameters: Path, rolled_back: Registry
) -> None:
    rolled_back.promote("demo", 2, actor="bob", reason="a mistake")
    rolled_back.rollback("demo", actor="ann", reason="none", windows=2)
    for week, champion in ((5, 1), (6, 1), (7, 5)):
        promote_if_allowed(installation, refreshed(installation, parameters, week, champion=1))
        assert champion_of(installation) == champion
    assert rolled_back.status()["deployments"]["demo"]["taken_back"][0].endswith(
        "until 2 windows after 2026-02-02/2026-02-09 have passed: none"
    )


def test_a_manual_retirement_is_not_undone_either(
    installation: Installation, parameters: Path, platt: Path
) -> None:
    settings(installation, gate="auto")
    promote_if_allowed(installation, refreshed(installation, parameters, 3))
    Registry.open(installation).retire("demo", actor="ann", reason="a leak")
    for week, config in ((3, "d" * 64), (2, "c" * 64), (4, "c" * 64)):
        said = promote_if_allowed(installation, refreshed(installation, parameters, week, config=config))
        assert "withdrawn by ann" in said
        assert champion_of(installation) is None
    promote_if_allowed(installation, refreshed(installation, platt, 5, method="platt"))  # another method may
    assert champion_of(installation) == 5


@pytest.mark.usefixtures("rolled_back")
def test_an_old_window_retires_nothing_after_a_rollback(installation: Installation, parameters: Path) -> None:
    plan = refreshed(installation, parameters, 3, verdict="reject", champion=1, kind="retire")
    assert "withdrawn by ann" in promote_if_allowed(installation, plan)
    assert champion_of(installation) == 1


def test_an_excluded_window_is_not_used_for_fits(installation: Installation, rolled_back: Registry) -> None:
    assert excluded_by_people(rolled_back.history("demo")) == []
    rolled_back.promote("demo", 2, actor="bob", reason="a mistake")
    rolled_back.rollback("demo", actor="ann", reason="wrong week", exclude_window=True)
    (found,) = excluded_by_people(rolled_back.history("demo"))
    assert found.window == WEEKS[4]
    rolled_back.promote("demo", 2, actor="bob", reason="it was right")
    assert excluded_by_people(rolled_back.history("demo")) == []


def test_an_excluded_window_is_named_with_the_person() -> None:
    left = {WEEKS[4]: "left out on purpose"}
    found = left_out(WEEKS[4], set(), WEEKS[6], set(), {}, left)
    assert found == {"window": str(WEEKS[4]), "kind": "taken_back", "reason": "left out on purpose"}
    assert left_out(WEEKS[4], set(), WEEKS[4], set(), {}, left) is None  # the refreshed window
