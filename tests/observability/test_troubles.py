"""The problems that `status` and the page show, each with its runbook."""

import errno
from collections import namedtuple
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest

from slc_ops.base.files import read_json, write_json
from slc_ops.observability import troubles as module
from slc_ops.observability.troubles import troubles
from slc_ops.refresh.observed import step
from slc_ops.settings.environment import Installation
from tests.refresh.school import NEWEST, copy_of

ON_TIME, LATE = datetime(2026, 2, 23, 12, tzinfo=UTC), datetime(2026, 2, 25, tzinfo=UTC)
OTHER = "  other: {source: {kind: lake, path: lake}, start: 2026-01-05}\n"


@pytest.fixture
def installation(operated: Installation, tmp_path: Path) -> Installation:
    """Two deployments; school has a verdict for the second newest window, other was never refreshed."""
    return copy_of(operated, tmp_path, OTHER)


def said(installation: Installation, now: datetime = ON_TIME, name: str = "school") -> list[tuple[str, str]]:
    return [
        (each.code, each.runbook.removeprefix("docs/runbooks.md#"))
        for each in troubles(installation, now)[name]
    ]


def test_a_healthy_installation_has_no_problems(installation: Installation) -> None:
    assert said(installation) == []


def test_a_window_without_a_verdict_is_late_one_day_after_its_due_time(installation: Installation) -> None:
    assert said(installation, LATE) == [("late", "late-verdict")]
    (found,) = troubles(installation, LATE)["school"]
    assert "no verdict exists for window 2026-02-16/2026-02-23, the newest is of 2026-02-09" in str(found)
    assert said(installation, LATE, "other") == []  # never refreshed: no verdict is due yet


@pytest.mark.parametrize(
    ("code", "runbook"),
    [("rows_by_day", "late-labels"), ("label_one_class", "outage-week"), ("backbones_mixed", "new-backbone")],
)
def test_a_stopped_window_names_the_finding_and_is_not_also_late(
    stopped: Installation, tmp_path: Path, code: str, runbook: str
) -> None:
    installation = copy_of(stopped, tmp_path, OTHER)
    result = installation.windows("school") / NEWEST.key / "validation.json"
    found = read_json(result)
    finding, *_ = (each for each in found["findings"] if each["severity"] == "critical")
    write_json(result, {**found, "findings": [{**finding, "code": code}]})
    assert said(installation, LATE) == [("stopped", runbook)]
    assert code in troubles(installation, LATE)["school"][0].sentence


def test_a_step_that_failed_on_a_full_disk_gives_the_reason(installation: Installation) -> None:
    with suppress(OSError), step("fit", "school", NEWEST, installation.refreshes("school") / NEWEST.key):
        raise OSError(errno.ENOSPC, "No space left on device", "/data/x")
    assert said(installation) == [("step", "failed-step")]
    assert "fit of window 2026-02-16 failed: No space left on device" in str(
        troubles(installation, ON_TIME)["school"][0]
    )


def test_a_broken_entry_is_named_and_does_not_affect_the_others(installation: Installation) -> None:
    text = installation.deployments_file.read_text()
    installation.deployments_file.write_text(text + "  broken: {source: {kind: nothing}}\n")
    assert said(installation, name="broken") == [("entry", "broken-entry")]
    assert said(installation) == said(installation, name="other") == []
    installation.deployments_file.write_text("deployments: [")
    assert [each.code for each in troubles(installation, ON_TIME, ["school"])["school"]] == ["entry"]


def test_little_disk_space_is_a_problem_of_every_deployment(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(module.shutil, "disk_usage", lambda _: usage(1 << 30, 1 << 30, 100 << 20))
    assert said(installation) == said(installation, name="other") == [("disk", "full-disk")]
    assert "only 100 MB are free" in str(troubles(installation, ON_TIME)["school"][0])
