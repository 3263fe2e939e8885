"""Scores of an earlier refresh are reused exactly if the cache key is equal."""

from dataclasses import replace
from pathlib import Path

import pytest

from slc_ops.base.files import read_json, write_json
from slc_ops.base.window import Window
from slc_ops.evidence import scoring
from slc_ops.evidence.backtest import entry_of
from slc_ops.evidence.scoring import read_score
from slc_ops.refresh import pipeline
from slc_ops.refresh.plan import Plan, PlannedWindow
from tests.evidence.worlds import write_weeks

SETTINGS = {
    "methods": ["slc"], "link_windows": 2, "offset_windows": 2, "evidence_windows": 3,
    "prior_var": 1.0, "time_bins": 5,
    "engine": "local", "decision": {"prior_vars": [0.5]},
    "effects": ["item"], "forget": {"windows": 4, "half_life": 2.0}, "on_backbone_mismatch": "frozen",
}  # fmt: skip


@pytest.fixture
def weeks(tmp_path: Path) -> list[tuple[Window, Path]]:
    return write_weeks(tmp_path / "weeks", 6, bias_sd=0.8, n=600)


@pytest.fixture
def scored(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The folds that were actually fitted and scored, in order."""
    found: list[str] = []
    work = scoring._fit_and_score

    def noted(rows, method, *rest):
        if method == "slc":
            found.append(rows.fold.key)
        return work(rows, method, *rest)

    monkeypatch.setattr(scoring, "_fit_and_score", noted)
    return found


def plan_of(weeks: list[tuple[Window, Path]], home: Path, **settings: object) -> Plan:
    """The refresh of the newest of these weeks, as planned by ``validate``."""
    windows = tuple(
        PlannedWindow(window, path, "", {}, f"rows of {window.key}") for window, path in weeks[-5:]
    )
    newest = weeks[-1][0]
    return Plan(
        "school",
        newest,
        windows,
        (),
        SETTINGS | settings,
        "",
        "",
        "",
        home / "refreshes" / newest.key / "key",
    )


def fit(plan: Plan) -> Path:
    """Fit every fold of a plan; return the paths of the scores."""
    for fold in pipeline.folds_of(plan).folds:
        pipeline.fit(plan, fold)
    return plan.files.scores


def folds_of(*weeks: tuple[Window, Path]) -> list[str]:
    return [window.key for window, _ in weeks]


def test_next_week_only_the_newest_fold_is_scored(weeks, scored, tmp_path):
    fit(plan_of(weeks[:5], tmp_path))
    assert scored == [*folds_of(*weeks[2:4]), *folds_of(weeks[4])]
    scored.clear()
    later = fit(plan_of(weeks, tmp_path))
    assert scored == folds_of(weeks[5])

    fit(plan_of(weeks, tmp_path / "scratch"))
    for fold in folds_of(*weeks[3:5]):
        taken, fresh = (
            read_json(home / "refreshes" / weeks[5][0].key / "key" / "scores" / fold / "slc" / "score.json")
            for home in (tmp_path, tmp_path / "scratch")
        )
        assert {**taken, "seconds_fit": 0} == {**fresh, "seconds_fit": 0}
        assert sorted(path.name for path in (later / fold / "slc").iterdir()) == [
            "key.json",
            "parameters",
            "score.json",
            "users.parquet",
        ]


@pytest.mark.parametrize(
    "change", [{"prior_var": 2.0}, {"time_bins": 7}, {"decision": {"prior_vars": [0.1]}}]
)
def test_other_settings_give_another_cache_key(weeks, scored, tmp_path, change):
    fit(plan_of(weeks[:5], tmp_path))
    scored.clear()
    fit(plan_of(weeks, tmp_path, **change))
    assert len(scored) == 3


def test_late_rows_change_the_cache_key_of_the_folds_that_contain_the_week(weeks, scored, tmp_path):
    fit(plan_of(weeks[:5], tmp_path))
    scored.clear()
    plan = plan_of(weeks, tmp_path)
    windows = tuple(
        replace(each, rows_key="other rows") if each.window == weeks[2][0] else each for each in plan.windows
    )
    fit(replace(plan, windows=windows))
    # Week 2 is a calibration week of the folds on weeks 3 and 4, which are both requested; week 5 is new.
    assert scored == [*folds_of(*weeks[3:5]), *folds_of(weeks[5])]


def test_a_cache_entry_never_changes(weeks, tmp_path):
    first, later, methods = plan_of(weeks[:5], tmp_path), plan_of(weeks, tmp_path), ("base", "platt", "slc")
    fit(first)
    fit(later)
    for window, _ in weeks[3:5]:
        ours, theirs = (
            entry_of(
                fold, methods, {m: read_score(fold, m, plan.files.scores) for m in methods}, plan.files.scores
            )
            for plan in (first, later)
            for fold in pipeline.folds_of(plan).folds
            if fold.window == window
        )
        assert ours == theirs


def test_a_score_whose_users_were_erased_is_recomputed(weeks, scored, tmp_path):
    (fit(plan_of(weeks[:5], tmp_path)) / weeks[3][0].key / "slc" / "users.parquet").unlink()
    scored.clear()
    fit(plan_of(weeks, tmp_path))
    assert scored == folds_of(weeks[3], weeks[5])


def test_an_error_is_not_reused(weeks, scored, tmp_path):
    plan = plan_of(weeks[:5], tmp_path)
    place = fit(plan) / folds_of(weeks[3])[0] / "slc" / "score.json"
    write_json(place, {**read_json(place), "metrics": None, "error": "the disk was away"})
    scored.clear()
    fit(plan_of(weeks, tmp_path))
    assert scored == [*folds_of(weeks[3]), *folds_of(weeks[5])]
