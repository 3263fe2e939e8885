"""Windows extracted and validated by executors equal those of one process: rows, statistics, verdicts."""

import shutil
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slc_ops.base.errors import InputError, ValidationStopped
from slc_ops.base.files import read_json
from slc_ops.base.parquet import digest_log, parts_of
from slc_ops.base.window import Window
from slc_ops.demo.simulate import simulate
from slc_ops.engines.spark import cluster as running
from slc_ops.engines.spark import parts, validation
from slc_ops.engines.spark.engine import SparkEngine
from slc_ops.intake.erased import Erased
from slc_ops.intake.extract import erase_window, extract, rows_of
from slc_ops.intake.manifest import WindowManifest
from slc_ops.quality.statistics import RowStatistics
from slc_ops.quality.verdict import Baseline, validate
from slc_ops.rows.engine import LOCAL, Engine
from slc_ops.settings.deployments import Deployment
from slc_ops.settings.sources import DeltaSource, FilesSource, LakeSource
from tests.engines.spark.cluster import Cluster, why_not
from tests.engines.spark.test_spark import assert_close

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(why_not() is not None, reason=f"no Spark cluster here: {why_not()}"),
]

WEEK = Window.parse("2026-01-12/2026-01-19")
ROWS = 1500


@pytest.fixture(autouse=True)
def many_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several parts per file, and several buckets of keys."""
    monkeypatch.setattr(parts, "PART_ROWS", 400)
    monkeypatch.setattr(validation, "BUCKET_ROWS", 100)


@pytest.fixture(scope="module")
def good_home(tmp_path_factory: pytest.TempPathFactory, engine: SparkEngine) -> Path:
    """Two weeks of a lake; the earlier one extracted, the later one in two files of many row groups."""
    home = tmp_path_factory.mktemp("good")
    simulate(home / "lake", weeks=2, rows_per_week=ROWS, users=80, items=30, new_items=1)
    table = read_week(home)
    (home / "lake" / f"week={WEEK.key}" / "part-0.parquet").unlink()
    write_week(home, table)
    for each in (LOCAL, engine):
        pulled(home, each, deployment(), WEEK.before(1)[0])
    return home


@pytest.fixture
def home(tmp_path: Path, good_home: Path) -> Path:
    """A private copy for the test."""
    shutil.copytree(good_home, tmp_path / "home")
    return tmp_path / "home"


def read_week(home: Path) -> pa.Table:
    files = sorted((home / "lake" / f"week={WEEK.key}").glob("*.parquet"))
    return pa.concat_tables([pq.read_table(file, partitioning=None) for file in files])


def write_week(home: Path, table: pa.Table) -> None:
    half = table.num_rows // 2
    for k, rows in enumerate((table.slice(0, half), table.slice(half))):
        pq.write_table(rows, home / "lake" / f"week={WEEK.key}" / f"half-{k}.parquet", row_group_size=200)


def deployment(**more: Any) -> Deployment:
    return Deployment(**{"source": LakeSource(path="lake"), "lookback_windows": 0, **more})


def pulled(
    home: Path, engine: Engine, settings: Deployment, window: Window = WEEK, **more: Any
) -> WindowManifest:
    name = "local" if engine is LOCAL else "spark"
    watching = RowStatistics(window, settings.quality.logit_limit)
    return extract(settings, window, home / name, home=home, observer=watching, by=engine, **more)


def validated(home: Path, engine: Engine, settings: Deployment) -> tuple[WindowManifest, dict[str, Any]]:
    """Extract the window, validate it against the week before and return the result and its files."""
    before = pulled(home, engine, settings, WEEK.before(1)[0])
    manifest = pulled(home, engine, settings)
    with suppress(ValidationStopped):
        validate(manifest, Baseline([before]), settings.quality, engine)
    return manifest, read_json(manifest.directory / "validation.json")


def put(column: str, rows: dict[int, Any], kind: pa.DataType | None = None) -> Callable[[pa.Table], pa.Table]:
    """Replace the values of some rows."""

    def change(table: pa.Table) -> pa.Table:
        values = table[column].to_pylist()
        for row, value in rows.items():
            values[row] = value
        kept = kind or table.schema.field(column).type
        return table.set_column(table.schema.get_field_index(column), column, pa.array(values, kept))

    return change


def every_kind_of_fault(table: pa.Table) -> pa.Table:
    """Invalid rows of each kind in several parts; ids and rows repeated within and across parts."""
    ids, users, items = (table[name].to_pylist() for name in ("event_id", "user_id", "item_id"))
    times = table["event_time"].to_pylist()
    again = {1400: ids[3], 1401: ids[3], 4: ids[3], 700: ids[2], 1402: ids[1100], 905: ids[700]}
    table = put("event_id", {**again, 11: None, 1300: None})(table)
    table = put("user_id", {1401: users[5], 20: None, 706: users[707]})(table)
    table = put("item_id", {1401: items[5], 21: None, 706: items[707]})(table)
    table = put("event_time", {1401: times[5], 22: None, 706: times[707]})(table)
    table = put("label", {700: 2, 701: None, 1200: 0.5, 3: 7}, pa.float64())(table)
    logits = {30: None, 31: float("nan"), 702: float("inf"), 1201: 1e6, 1202: -float("inf"), 4: float("nan")}
    table = put("logit", logits)(table)
    weights = np.ones(table.num_rows)
    weights[[40, 800]], weights[1250] = -1.0, np.nan
    table = table.append_column("weight", pa.array(weights))
    return put("backbone_version", dict.fromkeys(range(600, 900), "gru-9") | {1: None})(table)


def rows_in(path: Path) -> tuple[pa.Schema, str]:
    """Columns and rows in order, as text, so that NaN equals itself."""
    table = pq.read_table(path)
    return table.schema, str(table.to_pylist())


def as_text_without_ids(table: pa.Table) -> pa.Table:
    place = table.schema.get_field_index("label")
    return table.set_column(place, "label", table["label"].cast(pa.string())).drop_columns(["event_id"])


@pytest.mark.parametrize(
    ("damage", "budget", "status"),
    [
        (lambda table: table, 0.005, "passed"),
        (every_kind_of_fault, 0.4, "warned"),
        (every_kind_of_fault, 0.005, "stopped"),
        (put("label", {}, pa.float64()), 0.005, "passed"),
        (as_text_without_ids, 0.005, "stopped"),
        (put("event_id", dict.fromkeys(range(ROWS), "one")), 0.005, "stopped"),
    ],
    ids=["good", "quarantined", "over budget", "fractions", "other columns", "one id for all"],
)
def test_the_verdict_and_its_files_equal_those_of_one_process(
    engine: SparkEngine, home: Path, damage: Callable[[pa.Table], pa.Table], budget: float, status: str
) -> None:
    write_week(home, damage(read_week(home)))
    quality = {"row_budget": budget, "allow_mixed_backbones": True}
    settings = deployment(quality=quality)
    (here, expected), (there, found) = (validated(home, each, settings) for each in (LOCAL, engine))
    assert there.path.is_dir()
    assert len(parts_of(there.path)) == 4
    assert there.digest == here.digest
    assert (there.rows, there.schema, there.notes) == (here.rows, here.schema, here.notes)
    assert rows_in(there.path) == rows_in(here.path)
    assert expected["status"] == status
    assert [found.pop("clean_digest") == ""] == [expected.pop("clean_digest") == ""]
    assert_close(found, expected, 1e-12)
    for name in ("statistics.json", "items.parquet"):
        if name.endswith("json"):
            assert_close(read_json(there.directory / name), read_json(here.directory / name), 1e-12)
        else:
            assert rows_in(there.directory / name) == rows_in(here.directory / name)
    for name in ("clean.parquet", "quarantine.parquet"):
        assert (there.directory / name).exists() == (here.directory / name).exists()
        if (here.directory / name).exists():
            assert rows_in(there.directory / name) == rows_in(here.directory / name)


def test_statistics_with_another_limit_use_the_stored_rows(engine: SparkEngine, home: Path) -> None:
    write_week(home, every_kind_of_fault(read_week(home)))
    for each in (LOCAL, engine):
        pulled(home, each, deployment())
    quality = {"logit_limit": 1.0, "row_budget": 0.9, "allow_mixed_backbones": True}
    found = []
    for each in (LOCAL, engine):
        manifest = pulled(home, each, deployment())
        result = validate(manifest, Baseline(), deployment(quality=quality).quality, each)
        found.append((result.quarantined, read_json(manifest.directory / "statistics.json")))
    assert found[0][0] == found[1][0] > 100
    assert_close(found[1][1], found[0][1], 1e-12)


def test_late_rows_missing_labels_and_erased_users_are_handled_equally(
    engine: SparkEngine, home: Path
) -> None:
    settings = deployment(label_lag="1d")
    table = put("label", {5: None, 900: None})(read_week(home))
    write_week(home, table)
    Erased(home, "local").add(["user-000007"])
    Erased(home, "spark").add(["user-000007"])
    here, there = (pulled(home, each, settings) for each in (LOCAL, engine))
    assert there.notes["rows_without_label"] == 2
    assert (there.digest, there.notes) == (here.digest, here.notes)
    assert 0 < there.rows < ROWS - 2
    labels = table["label"].to_pylist()
    write_week(home, put("label", {5: 1, 6: 1 - labels[6], 1000: 1 - labels[1000]})(table))
    here, there = (pulled(home, each, settings, refresh=True) for each in (LOCAL, engine))
    assert there.notes["labels_changed"] == 2
    assert (there.digest, there.notes) == (here.digest, here.notes)


def test_a_window_without_rows_and_a_broken_file_give_the_same_errors(
    engine: SparkEngine, home: Path
) -> None:
    empty = WEEK.before(5)[0]
    here, there = (pulled(home, each, deployment(), empty) for each in (LOCAL, engine))
    assert (there.rows, there.digest, there.schema) == (0, here.digest, here.schema)
    assert validate_refused(there, engine) == validate_refused(here, LOCAL)
    path = home / "lake" / f"week={WEEK.key}" / "half-1.parquet"
    rows = bytearray(path.read_bytes())
    rows[100:20000] = bytes(19900)
    path.write_bytes(rows)
    for each in (LOCAL, engine):
        with pytest.raises(InputError, match=r"half-1\.parquet cannot be read"):
            pulled(home, each, deployment())
    assert not (home / "spark" / WEEK.key).exists()
    assert not [path for path in (home / "spark").iterdir() if path.name.startswith(f".{WEEK.key}")]


def validate_refused(manifest: WindowManifest, engine: Engine) -> str:
    with pytest.raises(ValidationStopped) as refusal:
        validate(manifest, Baseline(), deployment().quality, engine)
    return str(refusal.value).split("all findings")[0]


def test_a_worker_killed_while_writing_does_not_change_the_result(
    cluster: Cluster, engine: SparkEngine, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = pulled(home, engine, deployment())
    killer = threading.Timer(0.3, cluster.kill, args=("worker-0",))
    whole = running.collected

    def collected(*arguments: Any) -> pa.Table:
        killer.start()
        return whole(*arguments)

    monkeypatch.setattr(running, "collected", collected)
    again = home / "again"
    try:
        after = extract(
            deployment(),
            WEEK,
            again,
            home=home,
            observer=RowStatistics(WEEK, deployment().quality.logit_limit),
            by=engine,
        )
    finally:
        killer.join()
        cluster.add_worker("worker-0")
    assert after.file_digest == before.file_digest == digest_log(after.path)
    assert (after.directory / "statistics.json").read_bytes() == (
        before.directory / "statistics.json"
    ).read_bytes()
    assert {part.name for part in after.path.iterdir()} == {f"part-{k:05d}.parquet" for k in range(4)}


def test_one_process_can_use_and_erase_windows_written_by_a_cluster(engine: SparkEngine, home: Path) -> None:
    manifest, left = pulled(home, engine, deployment()), pulled(home, LOCAL, deployment())
    manifest.verify()
    with suppress(ValidationStopped):
        validate(manifest, Baseline(), deployment().quality)
    assert LOCAL.read(manifest.path).digest() == LOCAL.read(left.path).digest()
    erased = Erased(home, "spark").add(["user-000007"])
    assert rows_of(manifest.path, erased) == rows_of(left.path, erased) > 0
    erase_window(manifest.directory, erased)
    again = WindowManifest.read(manifest.directory)
    assert again.rows == manifest.rows - rows_of(left.path, erased)
    again.verify()


def test_executors_read_a_delta_table_and_this_process_other_files(
    engine: SparkEngine, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from deltalake import DeltaTable, write_deltalake

    table = read_week(home)
    write_deltalake(home / "table", table)
    DeltaTable(home / "table").delete(f"label = 0 and item_id = '{table['item_id'][0]}'")
    settings = deployment(source=DeltaSource(path="table"))
    here, there = (pulled(home, each, settings) for each in (LOCAL, engine))
    assert there.path.is_dir()
    assert there.digest == here.digest
    assert there.rows < ROWS
    pq.write_table(table, home / "rows.parquet")
    with caplog.at_level("INFO", "slc_ops"):
        one = pulled(home, engine, deployment(source=FilesSource(paths=("rows.parquet",))))
    assert one.path.is_file()
    assert "passes through this process: executors cannot read a source of kind files" in caplog.text


def test_executors_read_a_lake_in_s3(engine: SparkEngine, home: Path) -> None:
    import boto3
    from botocore import UNSIGNED
    from botocore.config import Config
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        endpoint = "http://{}:{}".format(*server.get_host_and_port())
        client = boto3.client(
            "s3", endpoint_url=endpoint, region_name="us-east-1", config=Config(signature_version=UNSIGNED)
        )
        client.create_bucket(Bucket="logs", ACL="public-read")
        for path in (home / "lake").rglob("half-*.parquet"):
            client.upload_file(str(path), "logs", f"lake/{path.relative_to(home / 'lake')}")
        there = LakeSource(path="s3://logs/lake", endpoint=endpoint, anonymous=True)
        found = pulled(home, engine, deployment(source=there))
    finally:
        server.stop()
    assert found.digest == pulled(home, LOCAL, deployment()).digest
    assert len(parts_of(found.path)) == 4
