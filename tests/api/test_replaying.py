"""``slc_ops.replay``: the operation over one frame with times."""

from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

import slc_ops
from slc_ops.api.errors import BadOption, FrameError
from slc_ops.demo.simulate import simulate
from tests.pages import blocks


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    lake = tmp_path_factory.mktemp("lake")
    simulate(lake, weeks=5, users=150, items=30, seed=11, start="2026-01-05")
    parts = [pq.read_table(path, partitioning=None) for path in sorted(lake.rglob("*.parquet"))]
    return pd.concat([part.to_pandas() for part in parts])


@pytest.mark.slow
def test_a_frame_with_renamed_columns_nanoseconds_and_no_time_zone_is_replayed_by_week(
    rows: pd.DataFrame,
) -> None:
    own = rows.rename(columns={"item_id": "problem", "label": "correct"}).drop(columns="event_id")
    own["event_time"] = own["event_time"].dt.tz_localize(None).astype("datetime64[ns]") + pd.Timedelta(
        7, "ns"
    )
    found = slc_ops.replay(
        own, columns={"item_id": "problem", "label": "correct"}, settings={"evidence_windows": 3}
    )
    table = found.table.to_pylist()
    assert [f"{row['start']:%Y-%m-%d}" for row in table] == [
        "2026-01-05", "2026-01-12", "2026-01-19", "2026-01-26", "2026-02-02",
    ]  # fmt: skip
    assert [row["status"] for row in table] == ["first", *["scored"] * 4]
    assert table[-1]["serves_next"] == "slc_eb"
    assert table[-1]["minus_platt"] == found.result.differences("served", "platt")[-1][1]
    assert "best in hindsight" in repr(found)
    assert found.result.headline in found._repr_html_()
    assert "<svg" in found.plot()._repr_html_()


@pytest.mark.slow
def test_the_example_on_the_page_runs(
    rows: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (block,) = [each for each in blocks("docs/api.md") if each.kind == "python"]
    rows.to_parquet(tmp_path / "log.parquet")
    monkeypatch.chdir(tmp_path)
    exec(block.text, {})  # noqa: S102 - our own documentation
    assert "<svg" in (tmp_path / "replay.html").read_text()


def test_a_frame_that_cannot_be_replayed_is_refused_in_one_line(rows: pd.DataFrame) -> None:
    with pytest.raises(FrameError, match="a replay needs times: the frame has no column 'event_time'"):
        slc_ops.replay(rows.drop(columns="event_time"))
    with pytest.raises(FrameError, match="windows of days need timestamps"):
        slc_ops.replay(rows.assign(event_time=range(len(rows))))
    with pytest.raises(BadOption, match="'slcc'"):
        slc_ops.replay(rows, methods=["slcc"])
    with pytest.raises(BadOption, match="days"):
        slc_ops.replay(rows, days=3)
    with pytest.raises(FrameError, match="no column 'problem'"):
        slc_ops.replay(rows, columns={"item_id": "problem"})
