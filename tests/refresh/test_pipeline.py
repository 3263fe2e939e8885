"""The refresh from the command line: once, twice, on damaged weeks, and with late rows."""

import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from slc_ops.base.errors import InputError, ValidationStopped
from slc_ops.base.window import Window
from slc_ops.refresh import pipeline
from slc_ops.refresh.plan import Plan
from slc_ops.registry import Registry
from slc_ops.settings.environment import Installation
from tests.refresh.school import NEWEST, change_week

pytestmark = pytest.mark.slow


@pytest.fixture
def installation(school: Installation) -> Installation:
    return school


def test_the_same_refresh_twice_gives_one_version_and_one_champion(installation: Installation) -> None:
    first = pipeline.refresh(installation, "school", NEWEST)
    second = pipeline.refresh(installation, "school", NEWEST)

    assert first == second
    registry = Registry.open(installation)
    champion = registry.champion("school")
    assert champion is not None
    assert (champion.number, champion.method) == (1, "slc")
    assert champion.metrics["auc"] > champion.metrics["platt_auc"]
    assert len(registry.history("school")) == 1
    assert len(registry.client.search_model_versions("name='slc-school'")) == 1


def test_a_damaged_newest_week_stops_the_refresh_and_keeps_the_champion(installation: Installation) -> None:
    previous = NEWEST.before(1)[0]
    pipeline.refresh(installation, "school", previous)
    before = Registry.open(installation).champion("school")
    assert before is not None

    def all_solved(week: pa.Table) -> pa.Table:
        position = week.column_names.index("label")
        return week.set_column(position, "label", pa.array([1] * week.num_rows, week.column("label").type))

    change_week(installation, NEWEST, all_solved)
    with pytest.raises(ValidationStopped, match="label"):
        pipeline.refresh(installation, "school", NEWEST)
    after = Registry.open(installation).champion("school")
    assert after == before


def test_a_damaged_past_week_is_left_out_and_named(installation: Installation) -> None:
    damaged = NEWEST.before(2)[0]

    def two_means_solved(week: pa.Table) -> pa.Table:
        position = week.column_names.index("label")
        return week.set_column(position, "label", pc.multiply(week.column("label"), 2))

    change_week(installation, damaged, two_means_solved)
    plan = pipeline.refresh(installation, "school", NEWEST)
    assert [each["window"] for each in plan.excluded] == [str(damaged)]
    assert str(damaged) not in [str(each.window) for each in plan.windows]


def test_only_late_rows_lead_to_a_new_refresh(installation: Installation) -> None:
    first = pipeline.refresh(installation, "school", NEWEST)
    late = NEWEST.before(1)[0]
    change_week(installation, late, lambda week: week.slice(0, week.num_rows - 5))
    second = pipeline.refresh(installation, "school", NEWEST)
    assert second.input_digest != first.input_digest
    assert second.directory != first.directory
    assert pipeline.refresh(installation, "school", NEWEST) == second


def test_a_week_without_rows_is_reported(installation: Installation) -> None:
    with pytest.raises(InputError, match="no rows in window 2030-01-07/2030-01-14"):
        pipeline.refresh(installation, "school", Window.parse("2030-01-07/2030-01-14"))


def test_a_plan_round_trips(installation: Installation) -> None:
    pipeline.extract(installation, "school", NEWEST)
    path = pipeline.validate(installation, "school", NEWEST)
    plan = pipeline.read_plan(path)
    assert plan.as_dict() == json.loads(path.read_text())
    assert [str(each.window) for each in plan.windows][-1] == str(NEWEST)


def test_a_refresh_keeps_its_rows_when_late_rows_replace_a_window(installation: Installation) -> None:
    pipeline.extract(installation, "school", NEWEST)
    plan = pipeline.read_plan(pipeline.validate(installation, "school", NEWEST))
    rows = pq.read_metadata(plan.newest.log).num_rows

    change_week(installation, NEWEST, lambda week: week.slice(0, week.num_rows - 5))
    pipeline.extract(installation, "school", NEWEST)

    assert pq.read_metadata(plan.newest.log).num_rows == rows
    later = pipeline.read_plan(pipeline.validate(installation, "school", NEWEST))
    assert pq.read_metadata(later.newest.log).num_rows == rows - 5
    assert later.directory != plan.directory


def test_a_refresh_with_caches_gives_the_same_bytes_as_one_without(
    installation: Installation, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    from slc_ops.evidence import scoring
    from slc_ops.methods.fitting import window_sums

    summed: list[Path] = []
    work = window_sums.sum_window
    monkeypatch.setattr(window_sums, "sum_window", lambda log, *rest: summed.append(log) or work(log, *rest))
    scored: list[str] = []
    score = scoring._fit_and_score
    monkeypatch.setattr(
        scoring, "_fit_and_score", lambda rows, *rest: scored.append(rows.fold.key) or score(rows, *rest)
    )
    methods = ("base", "platt", "rescal", "slc", "slc_t", "slc_eb")

    settings = installation.deployment("school").with_methods(methods)

    def register(home: Installation, window: Window) -> Plan:
        return pipeline.refresh(home, "school", window, settings=settings, until="publish")

    register(installation, NEWEST.before(1)[0])
    summed.clear(), scored.clear()
    later = register(installation, NEWEST)
    assert [log.parent.name for log in summed] == [NEWEST.key]  # the only window that is new
    assert set(scored) == {NEWEST.key}

    fresh = tmp_path_factory.mktemp("fresh")
    (fresh / "lake").symlink_to(installation.home / "lake")
    monkeypatch.setenv("SLC_OPS_HOME", str(fresh))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{fresh}/mlflow.db")
    summed.clear(), scored.clear()
    scratch = register(Installation.from_environment(), NEWEST)
    assert len(summed) == len(scratch.windows) == 5
    assert set(scored) == {NEWEST.before(1)[0].key, NEWEST.key}

    assert scratch.directory.name == later.directory.name
    assert results_of(scratch.directory) == results_of(later.directory)


def results_of(directory: Path) -> dict[str, bytes]:
    """The result files of a refresh, without durations."""
    found = {}
    for part in ("parameters", "scores", "detectability", "backtest.json", "verdict.json"):
        for path in [directory / part] if part.endswith(".json") else sorted((directory / part).rglob("*")):
            if path.is_file():
                text = path.read_bytes()
                if path.suffix == ".json":
                    text = re.sub(rb'"seconds_fit": [^,\n]+|"sealed_digest": "[0-9a-f]+"', b"", text)
                    text = text.replace(str(directory).encode(), b"")
                found[str(path.relative_to(directory))] = text
    return found
