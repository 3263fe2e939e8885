"""Files and directories are whole or absent, whoever else writes."""

import threading
from pathlib import Path

import pytest

from slc_ops.base.files import digest_json, replacing, replacing_directory, write_json


class Killed(Exception):
    """What a crash looks like to the code that is interrupted."""


def write_half(place: Path) -> None:
    place.write_text("half of")
    raise Killed


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "verdict.json"
    write_json(target, {"verdict": "hold"})
    with pytest.raises(Killed), replacing(target) as temporary:
        write_half(temporary)
    assert "hold" in target.read_text()
    assert list(tmp_path.iterdir()) == [target]


def test_a_failed_directory_leaves_the_old_one(tmp_path: Path) -> None:
    target = tmp_path / "set"
    with replacing_directory(target) as temporary:
        (temporary / "old").touch()
    with pytest.raises(Killed), replacing_directory(target) as temporary:
        write_half(temporary / "new")
    assert [p.name for p in target.iterdir()] == ["old"]
    assert list(tmp_path.iterdir()) == [target]


def test_many_writers_of_one_directory_leave_one_whole_directory(tmp_path: Path) -> None:
    target = tmp_path / "set"

    def write(number: int) -> None:
        for _ in range(20):
            with replacing_directory(target) as temporary:
                for name in ("a", "b"):
                    (temporary / name).write_text(str(number))

    writers = [threading.Thread(target=write, args=(n,)) for n in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert (target / "a").read_text() == (target / "b").read_text()
    assert list(tmp_path.iterdir()) == [target]


def test_the_digest_does_not_depend_on_the_order_of_keys() -> None:
    assert digest_json({"a": 1, "b": 2}) == digest_json({"b": 2, "a": 1})
    with pytest.raises(ValueError, match="Out of range"):
        digest_json(float("nan"))
