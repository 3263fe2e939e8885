"""A log with late labels in a separate source gives the same parameters, byte for byte."""

import shutil
import sqlite3
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from slc_ops.base.errors import InputError, SettingsError, ValidationStopped
from slc_ops.base.files import read_json
from slc_ops.cli import app
from slc_ops.demo.simulate import simulate
from slc_ops.refresh import pipeline
from slc_ops.refresh.window_rules import check_labels_due
from slc_ops.refresh.windows import lacking
from slc_ops.registry import Registry
from slc_ops.settings.environment import Installation
from tests.refresh.school import NEWEST, configure

LATE = {"labels": {"kind": "lake", "path": "lake/parts/labels"}, "label_lag": "3d"}


def settle_in(home: Path, monkeypatch: pytest.MonkeyPatch, **changes: object) -> Installation:
    monkeypatch.setenv("SLC_OPS_HOME", str(home))
    monkeypatch.setenv("SLC_OPS_DEPLOYMENTS", str(home / "deployments.yaml"))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{home}/mlflow.db")
    installation = Installation.from_environment()
    configure(installation, **changes)
    return installation


@pytest.fixture
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Installation:
    """The log of the deployment, with labels up to three days later in another lake."""
    home = tmp_path / "apart"
    parts = home / "lake" / "parts"
    simulate(parts, weeks=7, users=300, items=60, seed=11, start="2026-01-05", label_delay="3d")
    (home / "lake" / "school").symlink_to(parts / "predictions")
    return settle_in(home, monkeypatch, **LATE)


def parameters(plan: pipeline.Plan) -> dict[str, bytes]:
    directory = plan.files.parameters
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


@pytest.mark.slow
def test_the_parameters_equal_those_of_the_undelayed_log(
    school: Installation, apart: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = pipeline.refresh(apart, "school", NEWEST)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{school.home}/mlflow.db")
    whole = pipeline.refresh(school, "school", NEWEST)

    assert parameters(late) == parameters(whole)
    assert (late.input_digest, late.config_digest) == (whole.input_digest, whole.config_digest)
    assert read_json(late.files.verdict) == read_json(whole.files.verdict)


@pytest.mark.slow
def test_explicit_weeks_in_utc_equal_the_default_byte_for_byte(school: Installation) -> None:
    default = pipeline.refresh(school, "school", NEWEST)
    before = parameters(default)
    configure(school, window={"days": 7, "anchor": "monday", "zone": "UTC"}, refresh_every=1)

    asked = pipeline.refresh(school, "school", NEWEST)
    assert asked.directory == default.directory
    assert parameters(asked) == before


def labels_of(installation: Installation) -> list[Path]:
    """The label files of the newest window."""
    return sorted((installation.home / "lake" / "parts" / "labels").rglob("part-6.parquet"))


@pytest.mark.slow
def test_many_rows_without_a_label_stop_the_refresh_and_few_give_a_finding(apart: Installation) -> None:
    *_, last = labels_of(apart)
    rows = pq.read_table(last, partitioning=None)
    pq.write_table(rows.slice(0, rows.num_rows // 4 * 3), last)
    pipeline.extract(apart, "school", NEWEST)
    plan = pipeline.read_plan(pipeline.validate(apart, "school", NEWEST))
    assert [f["code"] for f in plan.newest.validation["findings"]] == ["rows_unlabelled"]

    last.unlink()
    pipeline.extract(apart, "school", NEWEST)
    with pytest.raises(ValidationStopped, match="rows_unlabelled: share of rows without a due label"):
        pipeline.validate(apart, "school", NEWEST)


@pytest.mark.faults(
    "a window is refreshed before its labels are due",
    "refused with the date, unless forced",
)
def test_a_window_before_its_label_date_is_refused_with_the_date_unless_forced(
    apart: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    early, due = datetime(2026, 2, 24, 12, tzinfo=UTC), datetime(2026, 2, 26, tzinfo=UTC)
    with pytest.raises(SettingsError, match=r"due on 2026-02-26 00:00 UTC .* give --force to do it anyway"):
        check_labels_due(NEWEST, apart.deployment("school").label_lag, early, hint="--force")
    check_labels_due(NEWEST, apart.deployment("school").label_lag, due, hint="--force")
    configure(apart)  # without label_lag there is no wait
    check_labels_due(NEWEST, apart.deployment("school").label_lag, early, hint="--force")

    later = f"{datetime.now(UTC).year + 2}-01-01"
    configure(apart, **LATE, window={"days": 1})
    asked = ["refresh", "--deployment", "school", "--window", f"{later}/{later[:-1]}2"]
    refused = CliRunner().invoke(app, asked)
    assert refused.exit_code != 0
    assert "labels of window" in refused.output + str(refused.exception)
    forced = CliRunner().invoke(app, [*asked, "--force"])
    assert "has no rows in window" in forced.output + str(forced.exception)


@pytest.mark.slow
def test_the_command_prints_warnings_of_validation(apart: Installation) -> None:
    *_, last = labels_of(apart)
    rows = pq.read_table(last, partitioning=None)
    pq.write_table(rows.slice(0, rows.num_rows // 4 * 3), last)
    shown = CliRunner().invoke(app, ["refresh", "--deployment", "school", "--window", str(NEWEST)])
    assert shown.exit_code == 0, shown.output
    assert "! rows_unlabelled: share of rows without a due label" in " ".join(shown.output.split())


def turn_labels(installation: Installation, count: int) -> None:
    """Other labels for some rows of the newest window."""
    first, *_ = labels_of(installation)
    rows = pq.read_table(first, partitioning=None)
    labels = rows["label"].to_numpy().copy()
    labels[:count] = 1 - labels[:count]
    place = rows.schema.get_field_index("label")
    pq.write_table(rows.set_column(place, "label", pa.array(labels)), first)


@pytest.mark.slow
def test_labels_changed_after_publication_give_a_finding_and_a_new_version(
    apart: Installation,
) -> None:
    published = pipeline.refresh(apart, "school", NEWEST)
    assert pipeline.refresh(apart, "school", NEWEST).directory == published.directory
    assert [each.number for each in Registry.open(apart).ledger.versions("school")] == [1]

    turn_labels(apart, 20)
    again = pipeline.refresh(apart, "school", NEWEST)
    assert again.input_digest != published.input_digest
    (finding,) = again.newest.validation["findings"]
    assert finding["code"] == "labels_changed"
    versions = Registry.open(apart).ledger.versions("school")
    assert [(each.number, each.window) for each in versions] == [(1, NEWEST), (2, NEWEST)]
    assert parameters(again) != parameters(published)
    assert parameters(published)  # the published version is unchanged


@pytest.mark.slow
def test_labels_of_a_database_joined_to_a_lake_give_the_same_parameters(
    apart: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_lake = pipeline.refresh(apart, "school", NEWEST)
    with sqlite3.connect(apart.home / "outcomes.db") as database:
        database.execute("create table outcomes (id, at, clicked)")
        for path in (apart.home / "lake" / "parts" / "labels").rglob("*.parquet"):
            rows = pq.read_table(path, partitioning=None).to_pylist()
            values = [(row["event_id"], row["event_time"].isoformat(sep=" "), row["label"]) for row in rows]
            database.executemany("insert into outcomes values (?, ?, ?)", values)
    monkeypatch.setenv("OUTCOMES_URL", "sqlite:///outcomes.db")
    query = "select id, at, clicked from outcomes where at >= :window_start and at < :window_end"
    columns = {"event_id": "id", "event_time": "at", "label": "clicked"}
    of_database = {"kind": "sql", "url_env": "OUTCOMES_URL", "query": query, "columns": columns}
    configure(apart, **{**LATE, "labels": of_database})

    plan = pipeline.refresh(apart, "school", NEWEST)
    assert plan.input_digest == of_lake.input_digest
    assert parameters(plan) == parameters(of_lake)


def test_a_window_without_any_label_names_the_date_of_the_labels(apart: Installation) -> None:
    shutil.rmtree(apart.home / "lake" / "parts" / "labels")
    (apart.home / "lake" / "parts" / "labels" / "week=2026-02-23").mkdir(parents=True)
    nothing = pa.table({"event_id": pa.array([], pa.string()), "label": pa.array([], pa.int8())})
    pq.write_table(nothing, apart.home / "lake" / "parts" / "labels" / "week=2026-02-23" / "x.parquet")
    assert lacking(apart, "school", NEWEST) is not None
    with pytest.raises(InputError, match=r"none of the \d+ rows of window 2026-02-16/2026-02-23"):
        pipeline.extract(apart, "school", NEWEST)
    assert not list(apart.refreshes("school").rglob("plan.json"))
