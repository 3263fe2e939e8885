"""A window in parts, as executors pull it, here sequentially in this process."""

import base64
import pickle
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from slc_ops.base.parquet import digest_log, digest_parts, read_parquet
from slc_ops.base.window import Window
from slc_ops.demo.simulate import simulate
from slc_ops.engines.spark import parts
from slc_ops.engines.spark.parts import PartPull, Written, source_parts
from slc_ops.intake.extract import extract, known_types
from slc_ops.intake.sources.lake import Lake
from slc_ops.settings.deployments import Deployment
from slc_ops.settings.sources import LakeSource

WEEK = Window.parse("2026-01-05/2026-01-12")


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A week in six small files of 150 rows, in row groups of 100."""
    simulate(tmp_path / "lake", weeks=1, rows_per_week=900, users=40, items=10)
    (whole,) = (tmp_path / "lake").glob("week=*/*.parquet")
    rows = pq.read_table(whole, partitioning=None)
    whole.unlink()
    for k in range(6):
        pq.write_table(rows.slice(150 * k, 150), whole.parent / f"{k}.parquet", row_group_size=100)
    return Lake(LakeSource(path="lake"), tmp_path, WEEK)


def test_small_files_share_a_part_and_large_ones_are_split(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    (whole,) = source_parts(lake)
    assert (whole.rows, len(whole.pieces)) == (900, 6)
    monkeypatch.setattr(parts, "PART_ROWS", 200)
    cut = source_parts(lake)
    assert [part.number for part in cut] == list(range(len(cut)))
    assert [part.rows for part in cut] == [250, 200, 250, 200]
    assert sum(part.rows for part in cut) == 900
    assert all(Path(piece.path).is_absolute() for part in cut for piece, _ in part.pieces)


def test_serialised_parts_give_the_same_window(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Deployment(source=lake.source)
    here = extract(settings, WEEK, tmp_path / "windows", home=tmp_path)
    monkeypatch.setattr(parts, "PART_ROWS", 200)
    folder = tmp_path / "log.parquet"
    folder.mkdir()
    types = known_types(lake, lake.source, {})
    pull = PartPull(lake.parts, lake.selects, lake.source, WEEK, False, None, types, folder)
    written = Written()
    for part in source_parts(lake):
        for _ in range(2):  # a repeated task writes the same part
            last = pickle.loads(pickle.dumps(pull))(part, None)  # noqa: S301 - our own
        written.merge(last)
    assert (written.rows, written.content.hexdigest()) == (here.rows, here.digest)
    assert digest_parts(written.files) == digest_log(folder)
    assert read_parquet(folder).equals(read_parquet(here.path))


def test_credentials_are_not_sent_to_executors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = base64.b64encode(b"a key of the account").decode()
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", key)
    source = LakeSource(path="abfs://logs@school.dfs.core.windows.net/lake")
    sent = pickle.dumps(Lake(source, tmp_path, WEEK).parts)
    assert key.encode() not in sent
    other = base64.b64encode(b"a key of the worker").decode()
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", other)
    opened = pickle.loads(sent)  # noqa: S301 - our own
    assert opened.remote
    assert other.encode() in pickle.dumps(opened.filesystem)
