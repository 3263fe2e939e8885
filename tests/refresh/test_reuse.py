"""Published fits equal those of the next refresh's newest fold: they are read instead of fitted again."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slc_ops.base.files import read_json
from slc_ops.evidence import scoring
from slc_ops.evidence.backtest import CHAMPION
from slc_ops.parameters.parameter_set import ParameterSet
from slc_ops.refresh import pipeline, reuse
from slc_ops.refresh.plan import Plan
from slc_ops.settings.environment import Installation
from tests.refresh.school import NEWEST, change_week, configure

METHODS = ["platt", "slc_eb"]
BEFORE = NEWEST.before(1)[0]


@pytest.fixture
def fitted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The methods fitted in folds, in order."""
    found, fit = [], scoring.fit_on

    def watched(rows: Any, method: str, options: Any) -> Any:
        if rows.fold.test != Path():  # the published fit has no test rows
            found.append(method)
        return fit(rows, method, options)

    monkeypatch.setattr(scoring, "fit_on", watched)
    return found


def first(school: Installation, **changes: object) -> Plan:
    """The refresh of the week before, whose champion is slc_eb."""
    configure(school, methods=METHODS, **changes)
    plan = pipeline.refresh(school, "school", BEFORE)
    assert read_json(plan.files.verdict)["method"] == "slc_eb"
    return plan


def results(plan: Plan) -> dict[str, Any]:
    """All results of the newest week, without durations."""
    newest = plan.files.scores / NEWEST.key
    found: dict[str, Any] = {}
    for path in sorted(newest.rglob("*")):
        if path.suffix == ".parquet" or path.name in ("params.json", "golden.json"):
            found[str(path.relative_to(newest))] = path.read_bytes()
        elif path.name == scoring.SCORE:
            score = read_json(path)
            found[str(path.relative_to(newest))] = {k: v for k, v in score.items() if k != "seconds_fit"}
    found["parameters"] = (plan.files.parameters / "params.json").read_bytes()
    found["verdict"] = {k: v for k, v in read_json(plan.files.verdict).items() if k != "champion"}
    return found


def again(school: Installation, plan: Plan) -> Plan:
    """Repeat the refresh, starting from its windows."""
    for part in (plan.files.scores / NEWEST.key, plan.files.parameters):
        shutil.rmtree(part)
    for path in (plan.files.backtest, plan.files.verdict, plan.files.versions):
        path.unlink(missing_ok=True)
    return pipeline.refresh(school, "school", NEWEST, until="decide")


@pytest.mark.slow
def test_a_published_fit_is_reused_and_gives_the_same_bytes(
    school: Installation, fitted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first(school)
    fitted.clear()
    plan = pipeline.refresh(school, "school", NEWEST, until="decide")
    assert fitted == ["base"]
    reused = results(plan)

    monkeypatch.setattr(reuse, "kept_fit", lambda *_: None)
    monkeypatch.setattr(ParameterSet, "same_answers", lambda *_: False)
    fitted.clear()
    worked_out = results(again(school, plan))
    assert sorted(fitted) == ["base", "platt", "platt_eb", "slc_eb"]
    assert reused == worked_out
    assert f"{CHAMPION}/score.json" in reused


@pytest.mark.slow
def test_other_rows_options_or_weeks_are_fitted_again(school: Installation, fitted: list[str]) -> None:
    first(school)
    change_week(school, BEFORE, lambda week: week.slice(0, week.num_rows - 1))  # a row was removed
    fitted.clear()
    pipeline.refresh(school, "school", NEWEST, until="decide")
    assert "slc_eb" in fitted

    configure(school, methods=METHODS, offset_windows=4)
    fitted.clear()
    pipeline.refresh(school, "school", NEWEST, until="decide")
    assert "slc_eb" in fitted


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["parameters", "key", "method", "gone"])
def test_an_unreadable_fit_is_repeated(school: Installation, fitted: list[str], damage: str) -> None:
    kept = first(school).files.parameters
    key = kept.with_name("parameters-key.json")
    assert key.exists()
    if damage == "parameters":
        (kept / "item.parquet").write_bytes(b"PAR1")
    elif damage == "key":
        key.write_text("{")
    elif damage == "method":
        replace(ParameterSet.read(kept), method="slc", cold=None).write(kept)
    else:
        shutil.rmtree(kept)
    fitted.clear()
    pipeline.refresh(school, "school", NEWEST, until="decide")
    assert "slc_eb" in fitted


def test_a_key_never_outlives_its_parameters(tmp_path: Path) -> None:
    parameters = tmp_path / "parameters"
    reuse.keep_key(parameters, "k", 1.0)
    assert read_json(tmp_path / "parameters-key.json") == {"key": "k", "seconds": 1.0}
    reuse.forget_key(parameters)
    reuse.forget_key(parameters)
    assert not list(tmp_path.iterdir())
