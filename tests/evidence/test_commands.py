"""``backtest``, ``detectability`` and ``paper`` from a terminal."""

import json
import shutil

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from slc_ops.cli import app
from slc_ops.methods import fit
from slc_ops.rows.interactions import InteractionLog
from tests.evidence.worlds import rows, week, write_weeks


def run(*arguments):
    return CliRunner().invoke(app, [str(each) for each in arguments])


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    root = tmp_path_factory.mktemp("lake")
    for window, path in write_weeks(root / "flat", 5, bias_sd=0.8, seed=21, n=2500):
        target = root / "lake" / f"week={window.key}" / "part-0.parquet"
        target.parent.mkdir(parents=True)
        path.rename(target)
    return root / "lake"


def test_detectability_returns_the_fields_of_the_contract(tmp_path):
    pq.write_table(rows(0, n=1000), tmp_path / "log.parquet")
    result = run("detectability", "--input", tmp_path / "log.parquet", "--time-bins", 5, "--json", "-")
    assert result.exit_code == 0, result.output
    value = json.loads(result.stdout)
    assert value["time_bins"] == 5
    assert value["temporal_tracking"] == "not viable"
    assert len(value["per_item"]) == value["items"] == 60


def test_detectability_prints_a_readable_table(tmp_path):
    pq.write_table(rows(0, n=1000), tmp_path / "log.parquet")
    result = run("detectability", "--input", tmp_path / "log.parquet")
    assert "smallest visible drift per bin" in result.output
    assert "Temporal tracking is not viable" in result.output


def test_renamed_columns_are_read(tmp_path):
    table = rows(0, n=500).rename_columns(
        ["when", "user_id", "pid", "y", "logit", "group_id", "backbone_version"]
    )
    pq.write_table(table, tmp_path / "log.parquet")
    names = ["--map", "event_time=when", "--map", "item_id=pid", "--map", "label=y"]
    assert run("detectability", "--input", tmp_path / "log.parquet", *names).exit_code == 0


@pytest.mark.slow
def test_a_backtest_of_a_lake_gives_a_verdict_and_a_report(lake, tmp_path):
    arguments = [
        "--link-windows",
        2,
        "--evidence-windows",
        3,
        "--out",
        tmp_path / "out",
        "--json",
        tmp_path / "b.json",
    ]
    result = run("backtest", "--lake", lake, "--deployment", "demo", *arguments)
    assert result.exit_code == 0, result.output
    value = json.loads((tmp_path / "b.json").read_text())
    assert value["verdict"]["verdict"] == "promote"
    assert value["verdict"]["window"]["start"].startswith("2026-02-02")
    assert (tmp_path / "out" / "report" / "report.html").exists()
    assert "Promote slc" in result.output


@pytest.mark.slow
def test_the_newest_window_and_the_methods_are_options(lake, tmp_path):
    champion = fit("slc", InteractionLog.read(lake / f"week={week(0).key}" / "part-0.parquet"))
    champion.write(tmp_path / "champion")
    result = run(
        "backtest", "--lake", lake, "--window", week(3), "--methods", "slc,rescal", "--link-windows", 1,
        "--evidence-windows", 2, "--champion", tmp_path / "champion", "--json", "-",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    value = json.loads(result.stdout)
    assert value["backtest"]["methods"] == ["base", "platt", "platt_eb", "rescal", "slc"]
    assert value["backtest"]["champion"]["status"] == "scored"
    assert value["verdict"]["window"] == week(3).as_dict()


@pytest.mark.slow
def test_a_backtest_validates_its_windows_as_a_refresh_does(lake, tmp_path):
    bad = shutil.copytree(lake, tmp_path / "lake")
    part = bad / f"week={week(4).key}" / "part-0.parquet"
    rows = pq.read_table(part, partitioning=None)
    of_one_class = rows.set_column(rows.schema.get_field_index("label"), "label", [[1] * rows.num_rows])
    pq.write_table(of_one_class, part)
    result = run("backtest", "--lake", bad, "--link-windows", 1, "--evidence-windows", 2)
    assert result.exit_code != 0
    assert "one_class" in str(result.exception) + result.output


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--methods", "magic"], "no method 'magic'; the ladder has base, platt"),
        (["--window", "2031-01-06/2031-01-13"], "no rows in window 2031-01-06/2031-01-13"),
        (["--window", "soon"], "is not START/END"),
        (["--champion", "does-not-exist"], "does-not-exist"),
    ],
)
def test_an_impossible_backtest_gives_a_reason(lake, more, says):
    result = run("backtest", "--lake", lake, *more)
    assert result.exit_code != 0
    assert says in str(result.exception) + result.output


def test_an_unknown_deployment_without_a_lake_is_refused(tmp_path, monkeypatch):
    file = tmp_path / "deployments.yaml"
    file.write_text("deployments: {demo: {source: {kind: lake, path: here}}}\n")
    monkeypatch.setenv("SLC_OPS_DEPLOYMENTS", str(file))
    result = run("backtest", "--deployment", "other")
    assert "no deployment 'other'" in str(result.exception)


@pytest.mark.slow
def test_paper_writes_its_tables(tmp_path):
    for number, name in enumerate(("calibration", "test")):
        pq.write_table(rows(number, n=3000, bias_sd=0.8), tmp_path / f"{name}.parquet")
    pair = ["--calibration", tmp_path / "calibration.parquet", "--test", tmp_path / "test.parquet"]
    result = run("paper", *pair, "--out", tmp_path / "out", "--no-regime")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "out" / "paper.md").exists()
    assert (tmp_path / "out" / "tables" / "ladder.csv").exists()


@pytest.mark.slow
def test_paper_accepts_several_pairs_and_a_history(tmp_path):
    for number, name in enumerate(("history", "calibration", "test", "later")):
        pq.write_table(rows(number, n=2000, bias_sd=0.8), tmp_path / f"{name}.parquet")
    files = {name: tmp_path / f"{name}.parquet" for name in ("history", "calibration", "test", "later")}
    pairs = ["--calibration", files["calibration"], "--test", files["test"],
             "--calibration", files["test"], "--test", files["later"]]  # fmt: skip
    rest = ["--history", files["history"], "--out", tmp_path / "out", "--no-regime", "--json", "-"]
    result = run("paper", *pairs, *rest)
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)
    slc = next(row for row in answer["ladder"] if row["method"] == "slc")
    single = [
        next(row for row in each["ladder"] if row["method"] == "slc")["auc"] for each in answer["pairs"]
    ]
    assert slc["auc"] == pytest.approx(sum(single) / 2)
    assert slc["auc_sd"] == pytest.approx(abs(single[0] - single[1]) / 2**0.5)
    for directory in ("out", "out/pair-1", "out/pair-2"):
        assert (tmp_path / directory / "figures" / "over_time.png").exists()
    odd = run("paper", *pairs[:6], *rest)
    assert (odd.exit_code, "2 --calibration and 1 --test" in odd.output) == (2, True)


@pytest.mark.parametrize(("what", "against"), [("prior-variance", "base"), ("calibration-fraction", "platt")])
def test_a_sweep_names_the_reference_of_its_differences(tmp_path, what, against):
    for number, name in enumerate(("calibration", "test")):
        pq.write_table(rows(number, n=1500, bias_sd=0.8), tmp_path / f"{name}.parquet")
    pair = ["--calibration", tmp_path / "calibration.parquet", "--test", tmp_path / "test.parquet"]
    shown = run("sweep", what, *pair, "--values", "0.5,1")
    assert f"slc by {what}, differences from {against}" in shown.output
    assert f"AUC − {against}" in shown.output
    answer = json.loads(run("sweep", what, *pair, "--values", "0.5,1", "--json", "-").stdout)
    assert answer["against"] == against
    for row in answer["rows"]:
        assert row["delta_auc"] == row["auc"] - row[f"{against}_auc"]
