"""Rows of erased users leave the windows and never return."""

import stat
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slc_ops.base.errors import MissingFile, SourceUnavailable
from slc_ops.base.window import Window
from slc_ops.demo.simulate import simulate
from slc_ops.intake.erased import Erased
from slc_ops.intake.extract import erase_window, extract, extracted, rows_of
from slc_ops.intake.manifest import FILE, LOG
from slc_ops.settings.deployments import Deployment
from slc_ops.settings.sources import LakeSource

WEEK = Window.parse("2026-01-05/2026-01-12")


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    simulate(tmp_path / "lake", weeks=1, users=40, items=10, rows_per_week=900, seed=3)
    return tmp_path / "lake"


def of(lake: Path) -> Deployment:
    return Deployment(source=LakeSource(path=str(lake)))


def pulled(home: Path, lake: Path, *, refresh: bool = False) -> Path:
    return extract(of(lake), WEEK, home / "windows" / "school", refresh=refresh, home=home).path


def without(lake: Path, user: str, target: Path) -> Path:
    """A lake that never contained the user."""
    for part in lake.rglob("*.parquet"):
        table = pq.read_table(part, partitioning=None)
        if "user_id" in table.column_names:
            table = table.filter(pa.compute.not_equal(table["user_id"], user))
        (target / part.relative_to(lake)).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, target / part.relative_to(lake))
    return target


def test_extraction_omits_erased_users(tmp_path: Path, lake: Path) -> None:
    Erased(tmp_path, "school").add(["user-000007"])
    users = pq.read_table(pulled(tmp_path, lake))["user_id"].to_pylist()
    assert users
    assert "user-000007" not in users


def test_an_erased_window_equals_that_of_a_log_without_the_user(tmp_path: Path, lake: Path) -> None:
    log = pulled(tmp_path, lake)
    erased = Erased(tmp_path, "school").add(["user-000007"])
    (window,) = extracted(log.parent.parent)
    assert rows_of(log, erased) > 0
    erase_window(window, erased)
    assert rows_of(log, erased) == 0
    other = pulled(tmp_path / "other", without(lake, "user-000007", tmp_path / "clean"))
    assert log.read_bytes() == other.read_bytes()


def test_a_second_extraction_does_not_restore_the_rows(tmp_path: Path, lake: Path) -> None:
    log = pulled(tmp_path, lake)
    erased = Erased(tmp_path, "school").add(["user-000007"])
    before = erase_window(log.parent, erased).digest
    for part in lake.rglob("*.parquet"):
        part.touch()  # it seems changed, so it is read again
    pulled(tmp_path, lake, refresh=True)
    assert rows_of(log, erased) == 0
    assert extract(of(lake), WEEK, log.parent.parent, home=tmp_path).digest == before


def test_ids_are_compared_as_text_and_a_missing_id_matches_no_user(tmp_path: Path) -> None:
    erased = Erased(tmp_path, "school").add(["17", ""])
    assert erased.rows(pa.array([17, 7, None])).to_pylist() == [True, False, False]
    assert erased.rows(pa.array(["17", "", None])).to_pylist() == [True, True, False]


def test_rows_pulled_before_an_erasure_are_discarded(
    tmp_path: Path, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from slc_ops.intake import extract as module

    real = module.pull

    def erased_meanwhile(*args: object, **kwargs: object) -> object:
        found = real(*args, **kwargs)  # type: ignore[arg-type]
        Erased(tmp_path, "school").add(["user-000007"])
        return found

    monkeypatch.setattr(module, "pull", erased_meanwhile)
    with pytest.raises(SourceUnavailable, match="erased while"):
        pulled(tmp_path, lake)
    windows = tmp_path / "windows" / "school"
    assert not list(windows.glob(f"**/{LOG}"))
    assert not list(windows.glob(f"*/{FILE}"))


def test_the_salt_file_is_private_and_no_file_names_the_user(tmp_path: Path) -> None:
    erased = Erased(tmp_path, "school").add(["user-000007"])
    for path in (tmp_path / "erased").iterdir():
        if path.suffix == ".json":
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            assert "user-000007" not in path.read_text()
    assert Erased(tmp_path, "other").hash("user-000007") in erased.users  # one salt for the home
    again = erased.path.stat().st_mtime_ns
    Erased(tmp_path, "school").add(["user-000007"])
    assert erased.path.stat().st_mtime_ns == again


def test_a_lost_salt_stops_extraction_instead_of_admitting_the_rows(tmp_path: Path, lake: Path) -> None:
    Erased(tmp_path, "school").add(["user-000007"])
    (tmp_path / "erased" / "salt.json").unlink()
    with pytest.raises(MissingFile, match="salt"):
        pulled(tmp_path, lake)
    with pytest.raises(MissingFile, match="salt"):
        Erased(tmp_path, "other").add(["user-000008"])
