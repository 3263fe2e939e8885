"""Windows of other lengths and zones, changes of cadence, and late verdicts."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from slc_ops.base.errors import SettingsError
from slc_ops.base.window import Window
from slc_ops.observability.troubles import late_window, note_notified
from slc_ops.refresh import pipeline
from slc_ops.refresh.backfill import windows_between
from slc_ops.refresh.pipeline import check_window
from slc_ops.refresh.versions import Outcome
from slc_ops.settings.deployments import Deployment
from slc_ops.settings.environment import Installation
from tests.refresh.school import NEWEST, configure

BERLIN = {"days": 1, "zone": "Europe/Berlin"}


def deployment(**settings: Any) -> Deployment:
    return Deployment.model_validate(
        {"source": {"kind": "lake", "path": "lake"}, "start": "2026-01-05"} | settings
    )


def test_an_overlapping_change_of_cadence_is_refused_with_a_remedy(
    school: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    forms = [each.as_dict() for each in [*NEWEST.before(1), NEWEST]]
    done = [[(None, Outcome(form, 1, "promote", "change", "slc", ""))] for form in forms]
    monkeypatch.setattr(pipeline, "outcomes", lambda *_: iter(done))
    configure(school, window={"days": 14, "anchor": "2026-02-02"})

    with pytest.raises(SettingsError) as refusal:
        check_window(school, "school", Window.parse("2026-02-16/2026-03-02"))
    said = str(refusal.value)
    assert "overlaps with 2026-02-16/2026-02-23" in said
    assert "continue with 2026-03-02/2026-03-16, or set window.anchor to 2026-02-23" in said
    assert "\n" not in said

    check_window(school, "school", Window.parse("2026-03-02/2026-03-16"))
    configure(school, window={"days": 14, "anchor": "2026-02-23"})
    check_window(school, "school", Window.parse("2026-02-23/2026-03-09"))


@pytest.mark.slow
def test_daily_windows_are_refreshed_at_local_midnight(school: Installation) -> None:
    configure(school, window=BERLIN, decision={"replicates": 200}, quality={"silent_hours": {"warn": None}})
    day = school.deployment("school").cadence.parse("2026-02-19/2026-02-20")

    plan = pipeline.refresh(school, "school", day, until="decide")

    assert plan.window == day
    assert plan.window.start == datetime(2026, 2, 18, 23, tzinfo=UTC)
    assert all(
        a.window.end == b.window.start for a, b in zip(plan.windows[:-1], plan.windows[1:], strict=True)
    )
    assert (school.windows("school") / "2026-02-19").is_dir()


@pytest.mark.parametrize(
    ("settings", "timestamp", "window"),
    [
        ({}, "2026-02-25T12:00", "2026-02-16/2026-02-23"),
        ({"label_lag": "3d"}, "2026-02-25T12:00", "2026-02-09/2026-02-16"),
        ({"label_lag": "3d"}, "2026-02-26T00:00", "2026-02-16/2026-02-23"),
        ({"window": {"days": 1}}, "2026-02-25T12:00", "2026-02-24/2026-02-25"),
        ({"window": BERLIN}, "2026-03-29T22:00", "2026-03-29/2026-03-30"),
        ({"window": {"days": 1}, "refresh_every": 7}, "2026-02-25T12:00", "2026-02-22/2026-02-23"),
        ({"window": {"days": 28, "anchor": "2026-01-05"}}, "2026-02-25T12:00", "2026-01-05/2026-02-02"),
    ],
)
def test_the_newest_window_is_the_last_whose_labels_are_due(
    settings: dict[str, Any], timestamp: str, window: str
) -> None:
    due = datetime.fromisoformat(timestamp).replace(tzinfo=UTC)
    assert str(deployment(**settings).newest_window(due)) == window


def test_a_backfill_has_the_same_windows_as_the_schedule() -> None:
    weekly = deployment(window={"days": 1}, refresh_every=7)
    due = datetime(2026, 3, 1, tzinfo=UTC)
    found = windows_between(weekly, "2026-02-02", "2026-02-16", due)
    assert [str(each) for each in found] == ["2026-02-08/2026-02-09", "2026-02-15/2026-02-16"]
    with pytest.raises(SettingsError, match="the next ends 2026-02-09"):
        windows_between(weekly, "2026-02-02", "2026-02-05", due)
    berlin = windows_between(deployment(window=BERLIN), "2026-02-02", "2026-02-04", due)
    assert [str(each) for each in berlin] == ["2026-02-02/2026-02-03", "2026-02-03/2026-02-04"]


def test_a_late_verdict_is_reported_once(school: Installation) -> None:
    configure(school, verdict_due="6h", start="2026-01-05")
    early, late = (datetime(2026, 2, 23, hour, tzinfo=UTC) for hour in (5, 6))
    assert late_window(school, "school", early) == NEWEST.before(1)[0]
    assert late_window(school, "school", late) == NEWEST

    note_notified(school, "school", NEWEST)
    assert late_window(school, "school", late) is None
    configure(school)
    assert late_window(school, "school", early) is None


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"window": {"zone": "Europe/Atlantis"}}, "'Europe/Atlantis' is not a time zone"),
        ({"window": {"days": 3}}, "window.days"),
        ({"lookback_weeks": 2}, "did you mean 'lookback_windows'?"),
        ({"label_lag": "soon"}, "write a number with m, h or d, for example 12h or 3d; found 'soon'"),
        ({"schedule": "31 February"}, "is no schedule"),
        ({"schedule": {}}, "name a cron expression, an asset, or both"),
        ({"labels": {"kind": "lake"}}, "labels"),
    ],
)
def test_a_broken_entry_gives_one_line_and_does_not_affect_others(
    school: Installation, settings: dict[str, Any], said: str, tmp_path: Path
) -> None:
    from slc_ops.settings.deployments_file import read_deployments

    source = {"kind": "lake", "path": "lake/school"}
    import yaml

    entries = {"good": {"source": source}, "bad": {"source": source, **settings}}
    school.deployments_file.write_text(yaml.safe_dump({"deployments": entries}))
    usable, broken = read_deployments(school.deployments_file)

    assert list(usable) == ["good"]
    assert said in str(broken[0])
    assert "\n" not in str(broken[0])
