"""Broken and unusual weeks: the verdict on each, the quarantined rows, and the publication.

``refused``: extraction raises, nothing is written. ``stopped``: the suite's critical finding stops the
refresh. ``quarantined``: invalid rows are stored beside the window, the others are used. ``warned``: all
rows are used, with a finding.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from slc_ops.base.errors import InputError, ValidationStopped
from slc_ops.intake.manifest import WindowManifest
from slc_ops.quality.verdict import Baseline, stops_of
from slc_ops.refresh import pipeline
from tests.quality import damage as d
from tests.quality.damage import FEW, MANY
from tests.quality.lake_bench import NEWEST, ROWS, Bench, Damage, validate_by_rules


class Case(NamedTuple):
    """A kind of damage with its expected verdict, and the code of a finding (or words of the refusal).
    ``quarantined`` is the number of quarantined rows; -1 if it varies.
    """

    name: str
    damage: Damage
    verdict: str
    because: str
    quarantined: int = 0


def kind(column: str, name: str, zone: str | None = None) -> Damage:
    """The column in another type."""
    return d.casting(column, pa.timestamp(name, zone) if name in ("us", "ns") else pa.type_for_alias(name))


def half(column: str, other: pa.DataType) -> Damage:
    """Half of the column in another type."""
    return d.halves_of_one_type_each(column, other)


def new_names(rows: pa.Table) -> pa.Array:
    return pa.array([f"new-{item}" for item in rows["item_id"].to_pylist()])


def logits(change: Callable[[np.ndarray], np.ndarray]) -> Damage:
    return d.replacing("logit", lambda rows: pa.array(change(rows["logit"].to_numpy())))


NAN, INF = float("nan"), float("inf")
AS_PROBABILITY = d.renaming("logit", "probability")
TOKYO, NAIVE = pa.timestamp("us", "Asia/Tokyo"), pa.timestamp("us")

SCHEMA = [
    Case("label as text", kind("label", "string"), "stopped", "label_type"),
    Case("logit as text", kind("logit", "string"), "stopped", "logit_type"),
    Case("item id a fraction", d.first_rows("item_id", ROWS, 0.5, pa.float64()), "stopped", "item_id_type"),
    Case("logit renamed", d.renaming("logit", "score"), "stopped", "score_missing"),
    Case("label renamed", d.renaming("label", "correct"), "stopped", "label_type"),
    Case("event id missing", d.renaming("event_id", "uuid"), "stopped", "event_id_type"),
    Case("time renamed", d.renaming("event_time", "ts"), "refused", "no column 'event_time'"),
    Case("ids half text, half numbers", half("user_id", pa.int64()), "refused", "user_id is string"),
]
TIMES = [
    Case("times without a zone", kind("event_time", "us"), "refused", "has no time zone"),
    Case("times as bare numbers", kind("event_time", "int64"), "refused", "epoch_unit"),
    Case("two time zones", half("event_time", TOKYO), "passed", ""),
    Case("half with, half without a zone", half("event_time", NAIVE), "refused", "no time zone"),
    Case("nanoseconds", kind("event_time", "ns", "UTC"), "passed", ""),
    Case("a few rows from next week", d.moved(FEW, 7), "quarantined", "event_time_outside", FEW),
    Case("many rows from next week", d.moved(MANY, 7), "stopped", "event_time_outside", MANY),
    Case("rows without a time", d.first_rows("event_time", FEW, None), "warned", "rows_without_time"),
]
IDS = [
    Case("a few duplicate ids", d.duplicated_ids(FEW), "quarantined", "event_id_duplicate", FEW),
    Case("many duplicate ids", d.duplicated_ids(MANY), "stopped", "event_id_duplicate", MANY),
    Case("a few without an item", d.first_rows("item_id", FEW, None), "quarantined", "item_id_null", FEW),
    Case("unicode ids", d.first_rows("event_id", 1, "Übung-数学-🧮"), "passed", ""),
    Case("ids with commas and quotes", d.first_rows("event_id", 1, "a,\"b\",'c'\n;"), "passed", ""),
    Case("an id of 10 kB", d.first_rows("event_id", 1, "x" * 10_000), "passed", ""),
    Case("all items renamed", d.replacing("item_id", new_names), "stopped", "items_unseen"),
]
LABELS = [
    Case("a few labels of 2", d.first_rows("label", FEW, 2), "quarantined", "label_not_binary", FEW),
    Case("many labels of 2", d.first_rows("label", MANY, 2), "stopped", "label_not_binary", MANY),
    Case(
        "half labels", d.first_rows("label", FEW, 0.5, pa.float64()), "quarantined", "label_not_binary", FEW
    ),
    Case("no labels at all", d.first_rows("label", ROWS, None), "stopped", "label_null", ROWS),
    Case("a label rate of 0", d.first_rows("label", ROWS, 0), "stopped", "label_one_class"),
    Case("nearly all labels 1", d.first_rows("label", ROWS - 400, 1), "stopped", "label_rate_leap"),
    Case("a label rate of news", d.first_rows("label", ROWS // 4, 1), "warned", "label_rate_shift"),
    Case("labels as fractions 0.0 and 1.0", kind("label", "double"), "passed", ""),
    Case("labels as true and false", kind("label", "bool"), "passed", ""),
]
SCORES = [
    Case("a few NaN", d.first_rows("logit", FEW, NAN), "quarantined", "logit_not_finite", FEW),
    Case("a few +inf", d.first_rows("logit", FEW, INF), "quarantined", "logit_not_finite", FEW),
    Case("many -inf", d.first_rows("logit", MANY, -INF), "stopped", "logit_not_finite", MANY),
    Case("a few of a million", d.first_rows("logit", FEW, 1e6), "quarantined", "logit_implausible", FEW),
    Case(
        "probabilities given as logits", d.replacing("logit", d.probabilities), "stopped",
        "logits_like_probabilities",
    ),
    Case("logits given as probabilities", AS_PROBABILITY, "stopped", "probability_outside", -1),
    Case(
        "probabilities in their column", d.both(d.replacing("logit", d.probabilities), AS_PROBABILITY),
        "warned", "columns_changed",
    ),
    Case("logits moved by 5", logits(lambda x: x + 5), "stopped", "logit_mean_shift"),
    Case("logits five times as wide", logits(lambda x: 5 * x), "stopped", "logit_sd_ratio"),
    Case("negative weights", d.negative_weights, "quarantined", "weight_negative", FEW),
    Case(
        "weights that no sum can hold", d.weights([1e308, 1e-200, 5e-324]), "quarantined",
        "weight_implausible", 3,
    ),
    Case(
        "two small faults over the budget together",
        d.both(d.first_rows("logit", 6, NAN), d.duplicated_ids(6)), "stopped", "quarantine_over_budget", 12,
    ),
]  # fmt: skip
VOLUME = [
    Case("an empty window", d.removed, "refused", "no rows in window"),
    Case("a half-empty one", d.only_first_days(3), "warned", "rows_unusual"),
    Case("ten times the rows", d.multiplied(10), "stopped", "rows_unusual"),
    Case("rows listed twice", d.repeated_rows(100), "warned", "rows_repeated"),
]
BACKBONES = [
    Case("two backbone versions", d.second_version(0.5), "stopped", "backbones_mixed"),
    Case("two versions, allowed", d.second_version(0.5, allowed=True), "warned", "backbone_mix"),
    Case("a new backbone version", d.second_version(1.0), "warned", "backbone_mix"),
]
FILES = [
    Case("a truncated Parquet file", d.truncated, "refused", "part-0.parquet cannot be read"),
    Case("a file that is no Parquet", d.no_parquet, "refused", "part-0.parquet cannot be read"),
]
CASES = [*SCHEMA, *TIMES, *IDS, *LABELS, *SCORES, *VOLUME, *BACKBONES, *FILES]


def case_id(case: Case) -> str:
    return case.name.replace(" ", "-")


def of(verdict: str) -> list[Case]:
    return [case for case in CASES if case.verdict == verdict]


def test_the_table_is_long_enough() -> None:
    assert len({case.name for case in CASES}) == len(CASES) >= 30


def refresh(bench: Bench) -> None:
    """Run the complete refresh, as the command line and the DAG do."""
    entry = bench.deployment.model_dump(mode="json", exclude_none=True)
    bench.installation.deployments_file.write_text(yaml.safe_dump({"deployments": {"demo": entry}}))
    pipeline.refresh(bench.installation, "demo", NEWEST, tell=lambda step: None)


def nothing_was_published(bench: Bench) -> bool:
    """No registry, no ledger and no fit, so the champion is unchanged."""
    home = bench.installation.home
    fitted = [*home.rglob("params.json"), *home.rglob("verdict.json")]
    return not fitted and not any((home / name).exists() for name in ("mlflow", "ledger.db"))


@pytest.mark.parametrize("case", of("refused"), ids=case_id)
def test_an_unreadable_window_is_refused(bench: Bench, case: Case) -> None:
    case.damage(bench)
    with pytest.raises(InputError) as refusal:
        refresh(bench)
    assert case.because in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert nothing_was_published(bench)
    window = bench.installation.windows("demo") / NEWEST.key
    assert not (window / "validation.json").exists()


@pytest.mark.slow
@pytest.mark.parametrize("case", of("stopped"), ids=case_id)
def test_a_critical_finding_stops_the_refresh(bench: Bench, case: Case) -> None:
    case.damage(bench)
    with pytest.raises(ValidationStopped) as stopped:
        refresh(bench)
    window = bench.installation.windows("demo") / NEWEST.key
    assert case.because in str(stopped.value)
    assert str(window / "validation.html") in str(stopped.value)
    assert nothing_was_published(bench)
    assert not (window / "clean.parquet").exists()
    if case.quarantined >= 0:
        assert quarantined(bench) == case.quarantined


@pytest.mark.parametrize("case", of("quarantined"), ids=case_id)
def test_a_few_invalid_rows_are_quarantined_with_their_reason(bench: Bench, case: Case) -> None:
    case.damage(bench)
    result = bench.validate()
    assert result.status == "warned"
    assert [finding.code for finding in result.findings if finding.count] == [case.because]
    assert quarantined(bench) == result.quarantined == case.quarantined
    aside = pq.read_table(result.clean_path.parent / "quarantine.parquet")
    assert set(aside["reason"].to_pylist()) == {case.because}
    clean = pq.read_table(result.clean_path)
    assert clean.num_rows == result.rows - case.quarantined
    assert not set(clean["event_id"].to_pylist()) - {*bench.read()["event_id"].to_pylist()}


@pytest.mark.parametrize("case", of("warned"), ids=case_id)
def test_an_unusual_window_is_used_and_annotated(bench: Bench, case: Case) -> None:
    case.damage(bench)
    result = bench.validate()
    assert result.status == "warned"
    assert case.because in {finding.code for finding in result.findings}
    assert {finding.severity for finding in result.findings} == {"warning"}
    assert result.quarantined == 0
    assert result.clean_path.name == "log.parquet"


@pytest.mark.parametrize("case", of("passed"), ids=case_id)
def test_unusual_but_valid_windows_pass(bench: Bench, case: Case) -> None:
    before = bench.read()
    case.damage(bench)
    result = bench.validate()
    assert (result.status, result.findings, result.quarantined) == ("passed", [], 0)
    clean = pq.read_table(result.clean_path)
    assert clean.num_rows == before.num_rows
    assert clean.schema.field("label").type == pa.int64()
    assert clean.schema.field("event_time").type == pa.timestamp("us", "UTC")
    assert sorted(clean["label"].to_pylist()) == sorted(before["label"].to_pylist())
    assert sorted(clean["event_time"].to_pylist()) == sorted(before["event_time"].to_pylist())


@pytest.mark.slow
@pytest.mark.parametrize("case", [case for case in CASES if case.verdict != "refused"], ids=case_id)
def test_a_past_window_is_a_baseline_unless_great_expectations_would_stop_it(
    bench: Bench, case: Case
) -> None:
    case.damage(bench)
    try:
        stopped = bench.validate().status == "stopped"
    except ValidationStopped:
        stopped = True
    directory = bench.installation.windows("demo")
    *trailing, newest = [WindowManifest.read(directory / each.key) for each in [*NEWEST.before(3), NEWEST]]
    assert bool(stops_of(newest, Baseline(trailing), bench.deployment.quality)[0]) == stopped
    if not stopped:
        by_suite = bench.validate()
        by_rules = validate_by_rules(newest, trailing, bench.deployment.quality)
        assert by_rules.clean_digest == by_suite.clean_digest
        assert {each.code for each in by_rules.findings} == {each.code for each in by_suite.findings}
    else:
        with pytest.raises(ValidationStopped, match=f"window {NEWEST} is not fit for use"):
            validate_by_rules(newest, trailing, bench.deployment.quality)


def test_the_undamaged_week_passes(bench: Bench) -> None:
    assert bench.validate().status == "passed"


def quarantined(bench: Bench) -> int:
    path = bench.installation.windows("demo") / NEWEST.key / "quarantine.parquet"
    return int(pq.read_metadata(path).num_rows) if path.exists() else 0
