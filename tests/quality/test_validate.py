"""The verdict of validation: its content, its files, and its cache."""

import json
import os
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from slc_ops.base.errors import ValidationStopped
from slc_ops.base.window import Window
from slc_ops.intake.extract import extract
from slc_ops.quality.statistics import Statistics, statistics_of
from slc_ops.quality.verdict import Baseline, validate
from slc_ops.settings.deployments import Deployment
from slc_ops.settings.sources import LakeSource
from tests.quality import damage as d
from tests.quality.lake_bench import DEPLOYMENT, NEWEST, ROWS, Bench

NAN = float("nan")


@pytest.mark.slow
def test_a_verdict_is_computed_once(bench: Bench) -> None:
    first = bench.validate()
    written = first.result_path.stat().st_mtime_ns
    (first.clean_path.parent / "statistics.json").unlink()  # a second evaluation would need it
    assert bench.validate() == first
    assert first.result_path.stat().st_mtime_ns == written


def test_other_settings_give_another_cache_key(bench: Bench) -> None:
    d.first_rows("logit", d.FEW, NAN)(bench)
    assert bench.validate().status == "warned"
    bench.configure(quality={"row_budget": 0.0})
    with pytest.raises(ValidationStopped, match="logit_not_finite"):
        bench.validate()


def test_a_stop_is_cached(bench: Bench) -> None:
    d.first_rows("label", ROWS, 0)(bench)
    messages = set()
    for _ in range(2):
        with pytest.raises(ValidationStopped) as stopped:
            bench.validate()
        messages.add(str(stopped.value))
    assert len(messages) == 1


def test_past_windows_are_never_read_again(bench: Bench) -> None:
    for window in NEWEST.before(3):
        directory = bench.installation.windows("demo") / window.key
        (directory / "log.parquet").write_bytes(b"gone")
    assert bench.validate().status == "passed"


def test_the_very_first_window_is_validated_without_history(bench: Bench) -> None:
    manifest = extract(DEPLOYMENT, NEWEST, bench.installation.windows("demo"), home=bench.installation.home)
    result = validate(manifest, Baseline(), DEPLOYMENT.quality)
    evaluated = {entry["code"] for entry in json.loads(result.result_path.read_text())["expectations"]}
    assert [(each.code, each.severity) for each in result.findings] == [("history_empty", "warning")]
    assert "label_one_class" in evaluated
    assert not evaluated & {"rows_unusual", "label_rate_shift", "items_unseen"}


def test_the_message_is_short_and_names_the_rule_the_counts_and_an_example(bench: Bench) -> None:
    d.first_rows("label", d.MANY, 2)(bench)
    with pytest.raises(ValidationStopped) as stopped:
        bench.validate()
    message = str(stopped.value)
    window = bench.installation.windows("demo") / NEWEST.key
    assert message.startswith(f"window {NEWEST} is not fit for use: label_not_binary: label must be 0 or 1: ")
    assert len(message.replace(str(window), "")) < 400
    assert "500 of 2000 rows (25.00%) fail, the budget is 0.50% of the rows" in message
    assert "{row=0, event_id=w0003-00000000, label=2}" in message
    assert "{row=0, label=2}" in stopped.value.kept  # files that are kept elsewhere name no user
    assert "w0003-0000" not in stopped.value.kept + (window / "validation.json").read_text()
    assert "w0003-0000" not in (window / "validation.html").read_text()
    assert message.endswith(f"all findings: {window / 'validation.html'}")
    assert "\n" not in message


def test_the_full_result_lists_every_expectation(bench: Bench) -> None:
    result = bench.validate()
    full = json.loads(result.result_path.read_text())
    assert full["status"] == "passed"
    assert all(entry["met"] for entry in full["expectations"])
    assert {entry["severity"] for entry in full["expectations"]} == {"critical", "warning"}
    assert len({entry["code"] for entry in full["expectations"]}) >= 30
    assert full["statistics"]["rows"] == ROWS


def test_a_moved_window_is_still_validated(bench: Bench, tmp_path: Path) -> None:
    d.first_rows("logit", d.FEW, NAN)(bench)
    bench.validate()
    os.rename(bench.installation.home, tmp_path / "elsewhere")
    directory = tmp_path / "elsewhere" / "windows" / "demo"
    *trailing, newest = [extract(DEPLOYMENT, each, directory) for each in [*NEWEST.before(3), NEWEST]]
    moved = validate(newest, Baseline(trailing), DEPLOYMENT.quality)
    assert moved.clean_path == directory / NEWEST.key / "clean.parquet"
    assert moved.clean_path.exists()


def test_a_row_with_two_errors_has_two_reasons_and_counts_once(bench: Bench) -> None:
    d.both(d.first_rows("logit", d.FEW, NAN), d.first_rows("label", d.FEW, 2))(bench)
    result = bench.validate()
    aside = pq.read_table(result.clean_path.parent / "quarantine.parquet")
    assert result.quarantined == aside.num_rows == d.FEW
    assert set(aside["reason"].to_pylist()) == {"label_not_binary,logit_not_finite"}


def test_of_duplicates_the_first_row_is_kept(bench: Bench) -> None:
    d.duplicated_ids(d.FEW)(bench)
    before = bench.read()
    clean = pq.read_table(bench.validate().clean_path)
    assert clean.equals(before.slice(0, ROWS - d.FEW).select(clean.schema.names).cast(clean.schema))


def test_the_statistics_of_a_window_equal_those_of_a_data_frame(bench: Bench) -> None:
    bench.validate()
    manifest = extract(DEPLOYMENT, NEWEST, bench.installation.windows("demo"))
    found = statistics_of(manifest, 50.0)
    rows = bench.read().to_pandas()
    assert isinstance(found, Statistics)
    assert found.rows == len(rows)
    assert found.label_rate == pytest.approx(rows["label"].mean())
    assert found.logit_mean == pytest.approx(rows["logit"].mean())
    assert found.logit_sd == pytest.approx(rows["logit"].std(ddof=0))
    assert (found.logit_low, found.logit_high) == (rows["logit"].min(), rows["logit"].max())
    assert found.items == rows["item_id"].nunique()
    assert found.versions == {"backbone-1": len(rows)}
    assert found.repeated_rows == rows.duplicated(["user_id", "item_id", "event_time"]).sum()


@pytest.mark.slow
def test_the_command_line_stops_on_a_damaged_week_in_one_line(bench: Bench) -> None:
    d.first_rows("logit", d.MANY, NAN)(bench)
    entry = bench.deployment.model_dump(mode="json", exclude_none=True)
    bench.installation.deployments_file.write_text(yaml.safe_dump({"deployments": {"demo": entry}}))
    command = [sys.executable, "-m", "slc_ops", "refresh", "--deployment", "demo", "--window", str(NEWEST)]
    if not (Path(__file__).parents[2] / "slc_ops" / "__main__.py").exists():
        command = [str(Path(sys.executable).parent / "slc-ops"), *command[3:]]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=dict(os.environ))
    assert done.returncode == 2
    (line,) = done.stderr.strip().splitlines()
    assert "logit_not_finite" in line
    assert "500 of 2000 rows" in line
    assert line.count("logit=nan") == 1  # one example; the page has more
    assert str(bench.installation.windows("demo") / NEWEST.key / "validation.html") in line
    assert not (bench.installation.home / "ledger.db").exists()


@pytest.mark.faults(
    "a log contains local times that a clock change repeats or skips",
    "used by one fixed rule, counted and reported",
)
def test_repeated_and_skipped_local_times_are_used_and_reported(tmp_path: Path) -> None:
    """Berlin's two clock changes of 2026 in a log without zones: the week is validated with a finding."""
    for start, odd, note in (
        ("2026-10-19/2026-10-26", "2026-10-25 02:52", "times_repeated"),
        ("2026-03-23/2026-03-30", "2026-03-29 02:30", "times_skipped"),
    ):
        window = Window.parse(start, "Europe/Berlin")
        first = window.start.astimezone(ZoneInfo("Europe/Berlin")).replace(tzinfo=None)
        times = [first + timedelta(minutes=14 * k) for k in range(600)]
        rows = pa.table(
            {
                "event_id": [f"{note}-{k}" for k in range(600)],
                "event_time": [*times[:-1], datetime.fromisoformat(odd)],
                "user_id": [f"u{k % 40}" for k in range(600)],
                "item_id": [f"i{k % 7}" for k in range(600)],
                "label": [k % 2 for k in range(600)],
                "logit": [(k % 9 - 4) / 2 for k in range(600)],
            }
        )
        (tmp_path / "lake").mkdir(exist_ok=True)
        pq.write_table(rows, tmp_path / "lake" / "rows.parquet")
        source = LakeSource(path="lake", naive_time_zone="Europe/Berlin")
        deployment = Deployment(source=source, window={"zone": "Europe/Berlin"})
        manifest = extract(deployment, window, tmp_path / "windows", home=tmp_path)
        assert (manifest.rows, manifest.notes[note]) == (600, 1)
        result = validate(manifest, Baseline(), deployment.quality)
        assert result.status == "warned"
        (said,) = [finding for finding in result.findings if finding.code == note]
        assert (said.observed, said.severity) == (1, "warning")
        assert "Day (Europe/Berlin)" in result.docs_path.read_text()


def test_logits_with_little_variation_are_not_mistaken_for_probabilities(bench: Bench) -> None:
    """Logits of 53 %, all in [0, 1]: the labels show that they are logits."""
    d.constant_at((0.05, 0.2))(bench)
    result = bench.validate(again=True)
    assert "logits_like_probabilities" not in {finding.code for finding in result.findings}


def test_the_message_on_mixed_backbones_names_the_setting(bench: Bench) -> None:
    d.second_version(0.5)(bench)
    with pytest.raises(ValidationStopped, match="on_new_backbone: split"):
        bench.validate()


def test_successes_and_failures_may_be_two_weighted_rows(bench: Bench) -> None:
    d.counted_twice(bench)
    result = bench.validate()
    assert ([each.code for each in result.findings], result.rows) == (["columns_changed"], ROWS + 100)


@pytest.mark.faults(
    "one label in five of a week is flipped at random",
    "a warning: the labels contradict the frozen model more than usual",
)
def test_flipped_labels_give_a_warning(bench: Bench) -> None:
    d.turned_labels(0.2)(bench)
    result = bench.validate()
    (found,) = [finding for finding in result.findings if finding.code == "label_misfit"]
    assert (result.status, found.severity) == ("warned", "warning")
    assert found.observed > 3
    assert "labels contradict the frozen model" in found.line()


def test_without_three_earlier_windows_no_misfit_is_flagged(bench: Bench) -> None:
    d.turned_labels(0.5)(bench)
    manifest, *others = (
        extract(bench.deployment, each, bench.installation.windows("demo"), home=bench.installation.home)
        for each in (NEWEST, *NEWEST.before(2))
    )
    result = validate(manifest, Baseline(others), bench.deployment.quality)
    assert "label_misfit" not in {finding.code for finding in result.findings}


def test_the_misfit_is_the_nll_minus_its_expected_value(bench: Bench) -> None:
    rows = bench.read().to_pandas()
    logit, label = rows["logit"].to_numpy(), rows["label"].to_numpy()
    p = 1 / (1 + np.exp(-logit))
    nll = -np.where(label == 1, np.log(p), np.log(1 - p))
    expected = -(p * np.log(p) + (1 - p) * np.log(1 - p))
    manifest = extract(
        bench.deployment, NEWEST, bench.installation.windows("demo"), home=bench.installation.home
    )
    found = statistics_of(manifest, 50.0)
    assert found.label_misfit == pytest.approx(np.mean(nll - expected), abs=1e-12)
    assert found.label_misfit_error == pytest.approx(np.std(nll - expected) / np.sqrt(len(p)), rel=1e-9)
