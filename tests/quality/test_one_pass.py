"""Extraction computes the statistics while it writes, so validating a fresh window reads no row."""

from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slc_ops.base import parquet
from slc_ops.base.errors import ValidationStopped
from slc_ops.base.files import read_json
from slc_ops.intake import writing
from slc_ops.intake.extract import extract
from slc_ops.intake.manifest import WindowManifest
from slc_ops.quality.statistics import FILE, ITEMS, RowStatistics
from slc_ops.quality.verdict import Baseline, validate
from slc_ops.settings.sources import FilesSource
from tests.quality.lake_bench import NEWEST, Bench
from tests.quality.test_broken_windows import CASES, Case, case_id


def observed(bench: Bench, name: str) -> WindowManifest:
    return extract(
        bench.deployment,
        NEWEST,
        bench.installation.windows(name),
        home=bench.installation.home,
        observer=RowStatistics(NEWEST, bench.deployment.quality.logit_limit),
    )


def not_observed(bench: Bench, name: str) -> WindowManifest:
    return extract(bench.deployment, NEWEST, bench.installation.windows(name), home=bench.installation.home)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The Parquet files whose rows are read."""
    names: list[str] = []
    real = pq.ParquetFile

    def counted(path: Path, **options: object) -> pq.ParquetFile:
        names.append(Path(path).name if isinstance(path, str | Path) else "stream")
        return real(path, **options)

    monkeypatch.setattr(pq, "ParquetFile", counted)
    return names


def test_validating_a_fresh_window_reads_no_row(bench: Bench, opened: list[str]) -> None:
    manifest = observed(bench, "fresh")
    opened.clear()
    assert [each.code for each in validate(manifest, Baseline(), bench.deployment.quality).findings] == [
        "history_empty"
    ]
    assert "log.parquet" not in opened
    validate(not_observed(bench, "unseen"), Baseline(), bench.deployment.quality)
    assert "log.parquet" in opened  # the counter works


def test_rows_are_read_again_if_some_must_be_quarantined(bench: Bench, opened: list[str]) -> None:
    rows = bench.read()
    bench.write(rows.set_column(5, "logit", pa.array([np.nan, *rows["logit"].to_pylist()[1:]])))
    manifest = observed(bench, "fresh")
    opened.clear()
    assert validate(manifest, Baseline(), bench.deployment.quality).quarantined == 1
    assert "log.parquet" in opened


def test_another_limit_reads_the_rows_again(bench: Bench) -> None:
    manifest = observed(bench, "fresh")
    bench.configure(quality={"logit_limit": 1.0, "row_budget": 0.99})
    found = validate(manifest, Baseline(), bench.deployment.quality)
    assert found.quarantined == sum(abs(x) > 1 for x in pq.read_table(manifest.path)["logit"].to_pylist())


@pytest.mark.slow
@pytest.mark.parametrize("case", [case for case in CASES if case.verdict != "refused"], ids=case_id)
def test_the_statistics_equal_those_of_the_stored_rows(
    bench: Bench, case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with many spans and row groups, and with other batches of the source."""
    monkeypatch.setattr(writing, "SPAN", 128)
    monkeypatch.setattr(parquet, "SPAN", 128)
    monkeypatch.setattr(writing, "ROW_GROUP", 512)
    case.damage(bench)
    seen, unseen = observed(bench, "seen"), not_observed(bench, "unseen")
    assert seen.digest == unseen.digest
    before = (seen.directory / FILE).read_bytes(), pq.read_table(seen.directory / ITEMS)
    for manifest in (seen, unseen):
        with suppress(ValidationStopped):  # compare the files
            validate(manifest, Baseline(), bench.deployment.quality)
    assert (unseen.directory / FILE).read_bytes() == before[0] == (seen.directory / FILE).read_bytes()
    assert pq.read_table(unseen.directory / ITEMS).equals(before[1])
    one, other = (read_json(each.directory / "validation.json") for each in (seen, unseen))
    assert one["findings"] == other["findings"]


def test_the_batches_of_the_source_do_not_matter(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "SPAN", 128)
    monkeypatch.setattr(writing, "ROW_GROUP", 512)
    whole = observed(bench, "whole")
    files = [f"cut-{k}.parquet" for k in range(7)]
    rows = bench.read()
    for k, name in enumerate(files):
        first, last = (n * rows.num_rows // len(files) for n in (k, k + 1))
        pq.write_table(rows.slice(first, last - first), bench.installation.home / name, row_group_size=77)
    bench.configure(source=FilesSource(paths=("cut-*.parquet",)).model_dump())
    cut = observed(bench, "cut")
    assert cut.digest == whole.digest
    assert (cut.directory / FILE).read_bytes() == (whole.directory / FILE).read_bytes()
    sizes = [
        pq.ParquetFile(each.path).metadata.row_group(k).num_rows for each in (cut, whole) for k in range(4)
    ]
    assert sizes == [512, 512, 512, 464] * 2
