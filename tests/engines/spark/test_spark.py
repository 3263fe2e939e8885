"""The Spark engine compared with the local one, on a real standalone cluster on loopback."""

import math
import os
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from slc_ops.base.errors import ClusterUnavailable, DamagedFile, FitError, InputError, SettingsError
from slc_ops.base.window import Window
from slc_ops.demo.simulate import simulate
from slc_ops.engines.spark import cluster as running
from slc_ops.engines.spark import engine as spark_engine
from slc_ops.engines.spark import log as spark_log
from slc_ops.engines.spark import splits
from slc_ops.engines.spark.engine import SparkEngine
from slc_ops.engines.spark.log import SparkLog
from slc_ops.evidence.detectability import detectability
from slc_ops.evidence.folds import Fold, FoldRows
from slc_ops.intake.extract import Pull
from slc_ops.intake.manifest import WindowManifest
from slc_ops.methods import METHODS, fit_prepared, slc_mix
from slc_ops.methods.fitting import monotone, prior_sample
from slc_ops.methods.fitting.blocks import Chosen
from slc_ops.methods.fitting.calibration import Calibration
from slc_ops.methods.fitting.mixed import Standard
from slc_ops.methods.fitting.options import Forgetting
from slc_ops.numerics.crossed import Variances
from slc_ops.parameters.parameter_set import ParameterSet
from slc_ops.refresh import observed, pipeline
from slc_ops.registry import Registry
from slc_ops.rows import interactions
from slc_ops.rows.engine import LOCAL
from slc_ops.settings.environment import Installation
from tests.engines.spark.cluster import SMALL, Cluster, free_port, why_not
from tests.evidence.worlds import backtest, rows, week, write_weeks

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(why_not() is not None, reason=f"no Spark cluster here: {why_not()}"),
]

NEWEST = Window.parse("2026-02-16/2026-02-23")


@pytest.fixture(scope="module")
def weeks(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Window, Path]]:
    """Four weeks with biased items, in row groups of 500 rows."""
    directory = tmp_path_factory.mktemp("weeks")
    written = []
    for window, path in write_weeks(directory, 4, n=3000, bias_sd=0.7):
        pq.write_table(pq.read_table(path), path, row_group_size=500, write_page_checksum=True)
        written.append((window, path))
    return written


@pytest.fixture
def many_splits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several splits per file."""
    monkeypatch.setattr(splits, "SPLIT_ROWS", 1500)


@pytest.fixture
def long_way(many_splits: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """More partial sums than the driver accepts, so that they are first added on the cluster."""
    monkeypatch.setattr(running, "MOST_PARTS", 2)


def assert_close(found: Any, expected: Any, tolerance: float, where: str = "") -> None:
    """Equal structure and text; numbers equal within the tolerance."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys(), where
        for key, value in expected.items():
            if not key.startswith("seconds"):
                assert_close(found[key], value, tolerance, f"{where}.{key}")
    elif isinstance(expected, list | tuple):
        assert len(found) == len(expected), where
        for place, value in enumerate(expected):
            assert_close(found[place], value, tolerance, f"{where}[{place}]")
    elif isinstance(expected, float) and expected is not None and found is not None:
        assert math.isclose(found, expected, rel_tol=0, abs_tol=tolerance), f"{where}: {found} {expected}"
    else:
        assert found == expected, where


def assert_same_parameters(found: ParameterSet, expected: ParameterSet) -> None:
    assert_close(found.link.as_dict(), expected.link.as_dict(), 1e-9, found.method)
    assert found.warnings == expected.warnings
    assert (found.n_rows, found.n_items) == (expected.n_rows, expected.n_items)
    assert_close(found.prior_var, expected.prior_var, 1e-9)
    if expected.time_edges is not None:
        assert found.time_edges is not None
        assert found.time_edges.tolist() == expected.time_edges.tolist()
    if expected.items is not None:
        assert found.items is not None
        assert found.items["id"].to_pylist() == expected.items["id"].to_pylist()
        for name in ("offset", "offset_var", "n_obs", "fisher_weight", "shrinkage"):
            here, there = (np.array(each[name].to_pylist(), float) for each in (expected.items, found.items))
            np.testing.assert_allclose(there, here, rtol=0, atol=1e-9, err_msg=f"{found.method} {name}")


def test_great_expectations_is_usable_beside_pyspark_in_a_python_without_a_main_file() -> None:
    script = "from slc_ops.quality.suite import library; print(library().__name__)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["great_expectations"]


@pytest.mark.usefixtures("many_splits")
def test_the_ladder_agrees_with_the_local_engine(
    engine: SparkEngine, weeks: list[tuple[Window, Path]]
) -> None:
    paths = [path for _, path in weeks[:3]]
    there, here = engine.read(paths), LOCAL.read(paths)
    assert len(there.splits) == 6
    assert there.items.to_pylist() == here.items.to_pylist()
    assert there.users.to_pylist() == here.users.to_pylist()
    assert there.groups.to_pylist() == here.groups.to_pylist()
    assert there.backbone_versions == here.backbone_versions
    ready, expected = Calibration(there), Calibration(here)
    for method in METHODS:
        assert_same_parameters(fit_prepared(method, ready), fit_prepared(method, expected))


@pytest.mark.usefixtures("many_splits")
@pytest.mark.parametrize("nested", [True, False], ids=["one group per item", "several groups per item"])
def test_groups_slopes_and_forgetting_agree(engine: SparkEngine, tmp_path: Path, nested: bool) -> None:
    rng = np.random.default_rng(3)
    offset, slope, group = rng.normal(0, 0.5, 1000), rng.normal(0, 0.7, 1000), rng.normal(0, 0.9, 12)
    paths = []
    for number in range(3):
        item, logit = rng.integers(0, 1000, 6000), rng.normal(0, 1.2, 6000)
        member = item % 12 if nested else rng.integers(0, 12, 6000)
        eta = logit + offset[item] + slope[item] * logit + group[member]
        label = (rng.random(6000) < 1 / (1 + np.exp(-eta))).astype(np.int8)
        times = 1e4 * number + np.arange(6000.0)
        table = pa.table(
            {"item_id": [f"i{k}" for k in item], "user_id": rng.integers(0, 300, 6000), "label": label,
             "group_id": [f"g{k}" for k in member], "logit": logit, "event_time": times}
        )  # fmt: skip
        paths.append(tmp_path / f"{number}.parquet")
        pq.write_table(table, paths[-1], row_group_size=500)
    forget = Forgetting((0.0, 1e4, 2e4), 8.0)
    found, expected = (
        fit_prepared(
            "slc_mix", *(Calibration(each.read(paths[first:])) for first in (2, 1)),
            Calibration(each.read(paths), forget=forget),
        )
        for each in (engine, LOCAL)
    )  # fmt: skip
    assert_same_parameters(found, expected)
    assert set(expected.effects) == {"item", "group"}
    for name, column in (("item", "slope"), ("group", "offset"), ("group", "offset_var"), ("group", "n_obs")):
        here, there = (each.effects[name].table for each in (expected, found))
        assert there["id"].to_pylist() == here["id"].to_pylist()
        np.testing.assert_allclose(there[column], here[column], rtol=0, atol=1e-9, err_msg=f"{name} {column}")


def test_users_on_a_cluster_are_refused_in_one_line(
    engine: SparkEngine, weeks: list[tuple[Window, Path]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_log, "IN_MEMORY_ROWS", 1000)
    calibration = Calibration(engine.read([path for _, path in weeks]))
    blocks = Chosen(Variances(item=0.5, user=0.25), {})
    with pytest.raises(FitError, match=r"users need all rows .* 12,000 rows \(leave user out of effects\)"):
        slc_mix._model(calibration, Standard(*calibration.logit_scale), blocks, None)


@pytest.mark.usefixtures("long_way")
def test_sums_added_on_the_cluster_are_equal(engine: SparkEngine, weeks: list[tuple[Window, Path]]) -> None:
    there, here = (each.read([path for _, path in weeks]) for each in (engine, LOCAL))
    assert_same_parameters(
        fit_prepared("slc_iso", Calibration(there)), fit_prepared("slc_iso", Calibration(here))
    )


@pytest.mark.parametrize("columns", [["user_id"], ["event_time", "group_id"]])
def test_weights_and_missing_columns_agree(engine: SparkEngine, tmp_path: Path, columns: list[str]) -> None:
    table = rows(0, n=4000, bias_sd=0.7).drop_columns(columns)
    weight = np.random.default_rng(1).integers(0, 4, len(table)).astype(float)
    pq.write_table(table.append_column("weight", pa.array(weight)), tmp_path / "week.parquet")
    there, here = (each.read(tmp_path / "week.parquet") for each in (engine, LOCAL))
    for method in ("isotonic", "slc", "slc_eb"):
        assert_same_parameters(
            fit_prepared(method, Calibration(there)), fit_prepared(method, Calibration(here))
        )


@pytest.mark.usefixtures("long_way")
@pytest.mark.parametrize("kind", ["items", "users", "weights", "one busy user", "no users", "all rows"])
def test_the_prior_is_estimated_on_the_same_rows(
    engine: SparkEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    table = rows(0, n=8000, bias_sd=0.7)
    if kind == "weights":
        weight = np.random.default_rng(1).integers(0, 4, len(table)).astype(float)
        table = table.append_column("weight", pa.array(weight))
    if kind == "one busy user":
        place, user = table.column_names.index("user_id"), table["user_id"].to_pylist()
        busy = [name if k % 20 == 0 else "busy" for k, name in enumerate(map(str, user))]
        table = table.set_column(place, "user_id", pa.array(busy))
    if kind == "no users":
        table = table.drop_columns(["user_id"])
    pq.write_table(table, tmp_path / "week.parquet", row_group_size=500)
    monkeypatch.setattr(prior_sample, "PRIOR_ROWS", 9000 if kind == "all rows" else 2000)
    monkeypatch.setattr(prior_sample, "LEAST_ITEMS", 1 if kind == "items" else 1e9)
    there, here = (each.read(tmp_path / "week.parquet") for each in (engine, LOCAL))
    found, expected = (prior_sample.prior_rows(log) for log in (there, here))
    assert found is not None
    assert expected is not None
    assert len(expected) == 8000 if kind == "all rows" else 1000 <= len(expected) <= 4000
    for name, values in vars(expected).items():
        np.testing.assert_array_equal(getattr(found, name), values, err_msg=name)
    assert_same_parameters(
        fit_prepared("slc_eb", Calibration(there)), fit_prepared("slc_eb", Calibration(here))
    )


@pytest.mark.usefixtures("many_splits")
def test_backtest_intervals_and_slices_agree(engine: SparkEngine, weeks: list[tuple[Window, Path]]) -> None:
    shape: dict[str, Any] = {"methods": ["slc_iso"], "link_windows": 2, "evidence_windows": 2}
    there, here = backtest(weeks, **shape, engine=engine), backtest(weeks, **shape)
    assert here.differences["slc_iso"]["platt"].auc.low is not None
    assert_close(there.as_dict(), here.as_dict(), 1e-9)


@pytest.mark.usefixtures("many_splits")
def test_large_logs_use_the_same_score_grid(
    engine: SparkEngine, weeks: list[tuple[Window, Path]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(monotone, "EXACT_ROWS", 1000)
    monkeypatch.setattr(spark_log, "IN_MEMORY_ROWS", 0)
    monkeypatch.setattr(interactions, "IN_MEMORY_ROWS", 0)
    shape: dict[str, Any] = {"methods": ["slc_iso"], "link_windows": 2, "evidence_windows": 2}
    there, here = backtest(weeks, **shape, engine=engine), backtest(weeks, **shape)
    assert_close(there.as_dict(), here.as_dict(), 1e-9)


def test_workers_with_a_different_code_version_are_refused(
    engine: SparkEngine, weeks: list[tuple[Window, Path]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_log, "Task", partial(running.Task, code="9.9+other"))
    with pytest.raises(SettingsError, match=r"runs slc_ops .*, but this refresh 9\.9\+other"):
        Calibration(engine.read(weeks[0][1])).item_sums  # noqa: B018 - reads rows on the cluster


def test_detectability_agrees(engine: SparkEngine, weeks: list[tuple[Window, Path]]) -> None:
    paths = [path for _, path in weeks]
    there, here = (detectability(each.read(paths)).as_dict(per_item=True) for each in (engine, LOCAL))
    assert_close(there, here, 1e-9)


def test_a_single_week_is_split_by_time_in_the_same_way(
    engine: SparkEngine, weeks: list[tuple[Window, Path]]
) -> None:
    fold = Fold(week(0), (weeks[0][1],), None)
    there_rows, here_rows = FoldRows(fold, engine), FoldRows(fold)
    parts, expected = ([each.tuning[0].log, each.tuning[1], each.test] for each in (there_rows, here_rows))
    assert [part.n_rows for part in parts] == [part.n_rows for part in expected]
    for there, here in zip(parts, expected, strict=True):
        assert_same_parameters(
            fit_prepared("slc", Calibration(there)), fit_prepared("slc", Calibration(here))
        )


def test_a_worker_killed_during_a_fit_does_not_change_the_result(
    cluster: Cluster,
    engine: SparkEngine,
    weeks: list[tuple[Window, Path]],
    many_splits: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = engine.read([path for _, path in weeks])
    before = fit_prepared("ridge", Calibration(log))
    passes, whole = [], SparkLog.over_splits

    def counted(self: SparkLog, *arguments: Any, **options: Any) -> Any:
        passes.append(1)
        if len(passes) == 3:
            killer.start()
        return whole(self, *arguments, **options)

    killer = threading.Thread(target=cluster.kill, args=("worker-0",))
    monkeypatch.setattr(SparkLog, "over_splits", counted)
    try:
        after = fit_prepared("ridge", Calibration(log))
    finally:
        killer.join()
        cluster.add_worker("worker-0")
    assert len(passes) > 4
    assert after.link == before.link
    assert after.items is not None
    assert after.items.equals(before.items)


def test_a_cluster_without_workers_gives_an_error(tmp_path: Path, weeks: list[tuple[Window, Path]]) -> None:
    """In a separate process: a process uses one cluster only."""
    script = """
import os, sys
from pathlib import Path
from slc_ops.methods import fit
from slc_ops.engines.spark.engine import SparkEngine
from slc_ops.base.errors import ClusterUnavailable
engine = SparkEngine()
log = engine.read(Path(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
os.environ["SLC_OPS_SPARK_WAIT"] = "5"
for step in (lambda: fit("slc", log), lambda: engine.read(Path(sys.argv[1]))):
    try:
        step()
    except ClusterUnavailable as error:
        print(error, flush=True)
"""
    alone = Cluster(tmp_path / "cluster").start(workers=1)
    environment = {
        **os.environ,
        "SLC_OPS_SPARK_MASTER": alone.master,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_SUBMIT_ARGS": SMALL,
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    command = [sys.executable, "-c", script, str(weeks[0][1])]
    try:
        with subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as driver:
            assert driver.stdin is not None
            assert driver.stdout is not None
            assert driver.stdout.readline().strip() == "ready"
            alone.kill("worker-0")
            driver.stdin.write("go on\n")
            driver.stdin.close()
            reported = driver.stdout.read()
        assert "lost all executors and gave no new one within 5 s" in reported
        assert "gave no executor within 5 s" in reported
    finally:
        alone.stop()


def test_a_corrupt_part_file_is_named(
    engine: SparkEngine, weeks: list[tuple[Window, Path]], tmp_path: Path, many_splits: None
) -> None:
    good, broken = weeks[0][1], tmp_path / "broken.parquet"
    data = bytearray(weeks[1][1].read_bytes())
    column = pq.ParquetFile(weeks[1][1]).metadata.row_group(3)
    place = next(
        column.column(k) for k in range(column.num_columns) if column.column(k).path_in_schema == "logit"
    )
    middle = (place.dictionary_page_offset or place.data_page_offset) + place.total_compressed_size // 2
    data[middle : middle + 64] = bytes(byte ^ 0xFF for byte in data[middle : middle + 64])
    broken.write_bytes(data)
    with pytest.raises(InputError, match=r"broken\.parquet"):
        fit_prepared("slc", Calibration(engine.read([good, broken])))
    broken.write_bytes(b"no Parquet at all")
    with pytest.raises(InputError, match=r"broken\.parquet"):
        engine.read([good, broken])


def deployed(home: Path, lake: Path, engine: str, monkeypatch: pytest.MonkeyPatch) -> Installation:
    """A home with one deployment on that engine."""
    home.mkdir()
    entry = {
        "source": {"kind": "lake", "path": str(lake)},
        "methods": ["slc"],
        "link_windows": 2,
        "evidence_windows": 2,
        "gate": "auto",
        "engine": engine,
        "decision": {"replicates": 200, "prior_vars": [1.0], "time_bins": [10]},
    }
    (home / "deployments.yaml").write_text(yaml.safe_dump({"deployments": {"school": entry}}))
    monkeypatch.setenv("SLC_OPS_HOME", str(home))
    monkeypatch.setenv("SLC_OPS_DEPLOYMENTS", str(home / "deployments.yaml"))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{home}/mlflow.db")
    return Installation.from_environment()


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("lake")
    simulate(out, weeks=7, users=300, items=60, seed=11, start="2026-01-05")
    return out


def test_a_refresh_on_spark_gives_the_same_version(
    engine: SparkEngine, lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for name in ("local", "spark"):
        installation = deployed(tmp_path / name, lake, name, monkeypatch)
        pipeline.refresh(installation, "school", NEWEST.before(1)[0], until="decide")
        with monkeypatch.context() as patch:
            seen = Passed(patch)
            plan = pipeline.refresh(installation, "school", NEWEST)
        champion = Registry.open(installation).champion("school")
        assert champion is not None
        found.append((champion, pipeline.decide(plan), ParameterSet.read(plan.directory / "parameters")))
    (here, verdict, parameters), (there, verdict_there, parameters_there) = found
    assert (there.number, there.method) == (here.number, here.method) == (1, "slc")
    assert_close(there.metrics, here.metrics, 1e-6)
    assert_close(verdict_there, verdict, 1e-6)
    assert_same_parameters(parameters_there, parameters)
    # The next week's refresh reads one new window and the windows of one fold. The line of platt_eb
    # has the long memory, here all six windows before.
    key, weeks_before = NEWEST.key, {window.key for window in NEWEST.before(6)}
    assert seen.pulled == [key]
    assert seen.windows("validate") == {key}
    assert {step for step, _ in seen.passes if step.startswith("fit")} == {f"fit-{key}"}
    assert seen.windows(f"fit-{key}") == {key, *weeks_before}
    assert seen.windows("publish") <= {key, *weeks_before}
    assert len(list((installation.windows("school") / key).glob("log.sums.parquet"))) == 1


class Passed:
    """Windows whose rows are requested on the cluster, by step; and windows that are pulled."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.passes: set[tuple[str, str]] = set()
        self.pulled: list[str] = []
        self.step = ""
        named, pull = observed.step, spark_engine.pull

        def noted(step: str, *subject: Any) -> Any:
            self.step = step
            return named(step, *subject)

        def counted(log: SparkLog) -> None:
            self.passes |= {(self.step, window_of(file)) for file in log._files}

        def pulls(session: Any, asked: Pull) -> WindowManifest:
            self.pulled.append(asked.window.key)
            return pull(session, asked)

        patch.setattr(observed, "step", noted)
        patch.setattr(spark_engine, "pull", pulls)
        for name in ("over_splits", "_distinct"):
            whole = getattr(SparkLog, name)
            patch.setattr(SparkLog, name, lambda log, *a, _w=whole, **k: counted(log) or _w(log, *a, **k))

    def windows(self, step: str) -> set[str]:
        return {window for each, window in self.passes if each == step}


def window_of(part: Path) -> str:
    log = part.parent  # …/2026-02-16/log.parquet/part-0…, or …/windows/2026-02-16.parquet/part-0…
    return log.parent.name if log.stem == "log" else log.stem


def test_a_window_that_contradicts_its_manifest_is_refused(
    engine: SparkEngine, lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installation = deployed(tmp_path / "home", lake, "local", monkeypatch)
    pipeline.extract(installation, "school", NEWEST)
    manifest = WindowManifest.read(installation.windows("school") / NEWEST.key)
    manifest.verify(engine.digest)
    pq.write_table(pq.read_table(manifest.path).slice(1), manifest.path)
    with pytest.raises(DamagedFile, match="its rows are not those that were extracted"):
        manifest.verify(engine.digest)


def test_an_unreachable_cluster_stops_the_refresh(
    lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installation = deployed(tmp_path / "home", lake, "spark", monkeypatch)
    monkeypatch.setenv("SLC_OPS_SPARK_MASTER", f"spark://127.0.0.1:{free_port()}")
    with pytest.raises(ClusterUnavailable, match="cannot be reached"):
        pipeline.refresh(installation, "school", NEWEST)
    assert Registry.open(installation).champion("school") is None
    assert not list(installation.refreshes("school").glob("**/versions.json"))
