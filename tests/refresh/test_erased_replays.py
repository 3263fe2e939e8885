"""Erased users are in no stored and no new replay."""

from pathlib import Path

import pytest

from slc_ops.base.files import write_json
from slc_ops.intake.erased import Erased
from slc_ops.intake.extract import rows_of
from slc_ops.refresh.erasure import erase
from slc_ops.refresh.replay import run_replay
from slc_ops.registry import Registry
from slc_ops.registry.audit import erasure_findings
from slc_ops.settings.environment import Installation
from tests.refresh.school import NEWEST

USER = "user-000017"


def rows_in(replay: Path, erased: Erased) -> list[int]:
    return [rows_of(log, erased) for log in sorted(replay.rglob("log.parquet"))]


@pytest.mark.slow
@pytest.mark.faults(
    "users are erased, a replay runs, the list of erased users is emptied",
    "no replay contains their rows; `verify` names the list",
)
def test_erased_users_are_in_no_replay_and_a_truncated_list_is_detected(school: Installation) -> None:
    settings, replay = school.deployment("school"), school.replays("school") / "span"
    run_replay("school", settings, [NEWEST], replay, home=school.home)
    (replay / "replay.html").write_text("the page")

    (receipt,) = erase(school, [USER], actor="ann")

    erased = Erased(school.home, "school")
    assert NEWEST.key in receipt.details["rows"]
    assert rows_in(replay, erased) == []
    assert (replay / "replay.html").exists()
    run_replay("school", settings, [NEWEST], replay, home=school.home)
    assert rows_in(replay, erased)
    assert not any(rows_in(replay, erased))

    ledger = Registry.open(school).ledger
    assert erasure_findings(ledger, "school", school.home) == []
    write_json(erased.path, {"schema_version": 1, "users": []})
    (finding,) = erasure_findings(ledger, "school", school.home)
    assert "1 of 1 erased users are not on the list" in finding.sentence
