"""An event counts once per deployment: a repeated export adds no evidence."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from slc_ops.base.errors import ValidationStopped
from slc_ops.base.window import Window
from slc_ops.intake.extract import extract
from slc_ops.intake.manifest import WindowManifest
from slc_ops.quality import event_ids as module
from slc_ops.quality.event_ids import FILE, seen_before
from slc_ops.quality.history import History
from slc_ops.quality.statistics import RowStatistics
from slc_ops.quality.verdict import Baseline, validate
from tests.quality.lake_bench import NEWEST, ROWS, Bench

CODE = "event_id_seen_before"


def sent_again(bench: Bench, count: int, weeks: int = 1) -> None:
    """The newest week's first rows are those of an earlier week, with new times and the old event ids."""
    old, rows = bench.read(NEWEST.before(weeks)[0]).slice(0, count), bench.read()
    moved = pc.add(old["event_time"], pa.scalar(NEWEST.start - NEWEST.before(weeks)[0].start))
    again = old.set_column(old.schema.get_field_index("event_time"), "event_time", moved)
    bench.write(pa.concat_tables([again, rows.slice(count)]))


@pytest.mark.faults(
    "an export of one or three weeks ago is sent again with new times and the old event ids",
    "the window is stopped",
)
@pytest.mark.parametrize("weeks", [1, 3])
def test_a_repeated_export_with_new_times_stops(bench: Bench, weeks: int) -> None:
    sent_again(bench, ROWS, weeks)
    with pytest.raises(ValidationStopped, match=f"{CODE}: .*an export sent again"):
        bench.validate()


def test_a_few_repeated_events_are_quarantined_with_their_reason(bench: Bench) -> None:
    sent_again(bench, 5)
    result = bench.validate()
    assert (result.status, result.quarantined) == ("warned", 5)
    aside = pq.read_table(result.result_path.parent / "quarantine.parquet")
    assert set(aside["reason"].to_pylist()) == {CODE}
    old = set(bench.read(NEWEST.before(1)[0])["event_id"].to_pylist())
    assert not old & set(pq.read_table(result.clean_path)["event_id"].to_pylist())
    assert result.seen_digest
    (found,) = [each for each in result.findings if each.code == CODE]
    assert (found.count, [each["row"] for each in found.examples]) == (5, [0, 1, 2, 3, 4])


def test_different_earlier_windows_give_a_different_verdict(bench: Bench) -> None:
    sent_again(bench, 5)
    assert bench.validate().quarantined == 5
    directory = bench.installation.windows("demo")
    manifest = WindowManifest.read(directory / NEWEST.key)
    assert validate(manifest, Baseline(), bench.deployment.quality).quarantined == 0


def test_a_sample_of_ids_finds_repeats_in_large_windows(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Above a size only a fraction of the hashes is kept, the same fraction in every window."""
    monkeypatch.setattr(module, "EXACT", 256)
    sent_again(bench, 200)
    bench.configure(quality={"row_budget": 0.2})
    result = bench.validate(again=True)
    kept = np.load(result.result_path.parent / FILE)
    assert 0 < len(kept) <= 400
    assert result.quarantined == 200


def test_event_ids_are_stored_at_extraction_and_read_from_rows_otherwise(bench: Bench) -> None:
    sent_again(bench, 5)
    directory = bench.installation.windows("demo")
    found: list[list[int]] = []
    for name in ("seen", "unseen"):
        both = [
            extract(
                bench.deployment,
                each,
                directory.parent / name,
                home=bench.installation.home,
                observer=RowStatistics(each, bench.deployment.quality.logit_limit)
                if name == "seen"
                else None,
            )
            for each in (NEWEST.before(1)[0], NEWEST)
        ]
        assert (both[0].directory / FILE).exists() == (name == "seen")
        found.append(seen_before(both[1], both[:1], 0.005).hashes.tolist())
    assert found[0] == found[1]
    assert len(found[0]) == 5


def test_all_calibration_windows_are_searched(bench: Bench) -> None:
    """Also if the weeks in between were stopped for the same reason and are no baseline windows."""
    sent_again(bench, ROWS, weeks=3)
    directory = bench.installation.windows("demo")

    def manifest_of(window: Window) -> WindowManifest:
        return extract(bench.deployment, window, directory, home=bench.installation.home)

    history = History(manifest_of, bench.deployment.quality)
    earlier = history.baseline(NEWEST).earlier
    assert [each.window for each in earlier] == NEWEST.before(3)
    manifest = manifest_of(NEWEST)
    with pytest.raises(ValidationStopped, match=CODE):
        validate(manifest, Baseline(earlier=earlier), bench.deployment.quality, suite=False)
