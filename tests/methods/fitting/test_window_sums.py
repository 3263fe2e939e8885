"""Cached sums of a window give the same bytes as its rows and avoid reading them."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slc_ops.base.errors import InputError
from slc_ops.methods import METHODS, fit
from slc_ops.methods.fitting.calibration import Calibration
from slc_ops.methods.fitting.window_sums import keep_sums, key_of, open_windows, sums_path
from slc_ops.rows.engine import LOCAL
from slc_ops.rows.interactions import InteractionLog
from slc_ops.rows.loading import Loader
from slc_ops.rows.reading import open_source

SUMS_SUFFICE = {"base", "rescal"}


def write_window(
    path: Path, seed: int, *, text: bool = True, weighted: bool = False, rows: int = 1200
) -> Path:
    rng = np.random.default_rng(seed)
    item = rng.integers(0, 60, rows) + 5 * seed  # items come and go from window to window
    columns = {
        "item_id": [f"item-{code}" for code in item] if text else item,
        "user_id": rng.integers(0, 80, rows),
        "event_time": 1e6 * seed + np.sort(rng.random(rows)),
        "label": rng.integers(0, 2, rows),
        "logit": rng.normal(0, 1.3, rows),
    }
    if weighted:
        columns["weight"] = rng.choice([0.0, 0.3, 1.0, 2.5], rows)
    pq.write_table(pa.table(columns), path)
    return path


@pytest.fixture(params=["text", "integers", "weighted"])
def windows(request: pytest.FixtureRequest, tmp_path: Path) -> list[Path]:
    """Three windows without cached sums."""
    return [
        write_window(
            tmp_path / f"{k}.parquet", k, text=request.param == "text", weighted=request.param == "weighted"
        )
        for k in range(3)
    ]


def files_of(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


@pytest.mark.parametrize("method", METHODS)
def test_cached_sums_give_the_same_bytes_as_rows(method: str, windows: list[Path], tmp_path: Path) -> None:
    fit(method, open_windows(LOCAL, windows)).write(tmp_path / "scratch")
    for window in windows[:2]:  # the two older windows were summed by an earlier refresh
        keep_sums(window, "key")
    fit(method, open_windows(LOCAL, windows)).write(tmp_path / "partly")
    keep_sums(windows[2], "key")
    fit(method, open_windows(LOCAL, windows)).write(tmp_path / "kept")
    assert files_of(tmp_path / "scratch") == files_of(tmp_path / "partly") == files_of(tmp_path / "kept")


def test_the_sums_equal_those_of_all_rows(windows: list[Path]) -> None:
    together = InteractionLog.read(windows)
    summed = open_windows(LOCAL, windows)
    assert summed.items.equals(together.items)
    assert np.array_equal(summed.item_counts, together.item_counts)
    expected, found = Calibration(together).item_sums, Calibration(summed).item_sums
    for name in ("n", "y", "p", "fisher"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_only_methods_that_need_rows_read_rows(
    method: str, windows: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    for window in windows:
        keep_sums(window, "key")
    reads = []
    load = Loader.load
    monkeypatch.setattr(Loader, "load", lambda loader, *asked: reads.append(loader) or load(loader, *asked))
    fit(method, open_windows(LOCAL, windows))
    assert len(reads) == (0 if method in SUMS_SUFFICE else 1)


def test_sums_under_the_same_key_are_not_computed_again(
    windows: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_sums(windows[0], "key")
    before = sums_path(windows[0]).stat().st_ino
    monkeypatch.setattr(Loader, "load", lambda loader, *asked: pytest.fail("the rows were read again"))
    keep_sums(windows[0], "key")
    assert sums_path(windows[0]).stat().st_ino == before


def test_another_key_replaces_the_sums(windows: list[Path]) -> None:
    keep_sums(windows[0], "key")
    keep_sums(windows[0], "another")
    assert key_of(sums_path(windows[0])) == "another"


@pytest.mark.parametrize("damage", ["cut short", "flipped byte", "not Parquet"])
def test_damaged_sums_are_recomputed(windows: list[Path], tmp_path: Path, damage: str) -> None:
    fit("rescal", open_windows(LOCAL, windows)).write(tmp_path / "expected")
    path = keep_sums(windows[0], "key")
    data = bytearray(path.read_bytes())
    if damage == "cut short":
        data = data[: len(data) // 2]
    elif damage == "flipped byte":
        data[len(data) // 3] ^= 0xFF
    else:
        data = bytearray(b"no Parquet here")
    path.write_bytes(data)
    fit("rescal", open_windows(LOCAL, windows)).write(tmp_path / "found")
    assert files_of(tmp_path / "found") == files_of(tmp_path / "expected")


def test_sums_of_other_rows_are_recomputed(windows: list[Path], tmp_path: Path) -> None:
    """``rescal`` uses only the sums, so no later read of the rows would reveal the error."""
    keep_sums(windows[0], "key")
    write_window(windows[0], seed=9)
    fit("rescal", open_windows(LOCAL, windows)).write(tmp_path / "found")
    keep_sums(windows[0], "another")
    fit("rescal", open_windows(LOCAL, windows)).write(tmp_path / "expected")
    assert files_of(tmp_path / "found") == files_of(tmp_path / "expected")


def test_a_log_with_unexpected_items_is_refused(windows: list[Path]) -> None:
    log = InteractionLog(open_source(windows[0], {}), items=pa.array(["another item"]))
    for _ in range(2):
        with pytest.raises(InputError, match="belong to other rows"):
            fit("platt", log)
