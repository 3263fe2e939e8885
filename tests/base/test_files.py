"""Files and directories are complete or absent, even with concurrent writers."""

import os
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from slc_ops.base.digests import digest_json
from slc_ops.base.errors import DamagedFile, StorageError
from slc_ops.base.files import read_json, replacing, replacing_directory, write_json, write_text
from tests.registry.factory import no_file_above


class Killed(Exception):
    """A crash, as the interrupted code sees it."""


def write_half(place: Path) -> None:
    place.write_text("half of")
    raise Killed


def test_a_failed_write_keeps_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "verdict.json"
    write_json(target, {"verdict": "hold"})
    with pytest.raises(Killed), replacing(target) as temporary:
        write_half(temporary)
    assert "hold" in target.read_text()
    assert list(tmp_path.iterdir()) == [target]


def test_a_failed_directory_write_keeps_the_old_directory(tmp_path: Path) -> None:
    target = tmp_path / "set"
    with replacing_directory(target) as temporary:
        (temporary / "old").touch()
    with pytest.raises(Killed), replacing_directory(target) as temporary:
        write_half(temporary / "new")
    assert [p.name for p in target.iterdir()] == ["old"]
    assert list(tmp_path.iterdir()) == [target]


def test_concurrent_writers_leave_one_complete_directory(tmp_path: Path) -> None:
    target = tmp_path / "set"

    def write(number: int) -> None:
        for _ in range(100):
            with replacing_directory(target) as temporary:
                for name in ("a", "b"):
                    (temporary / name).write_text(str(number))

    with ThreadPoolExecutor(4) as writers:
        list(writers.map(write, range(4)))  # none is refused
    assert (target / "a").read_text() == (target / "b").read_text()
    assert list(tmp_path.iterdir()) == [target]


def test_the_digest_does_not_depend_on_the_order_of_keys() -> None:
    assert digest_json({"a": 1, "b": 2}) == digest_json({"b": 2, "a": 1})
    with pytest.raises(ValueError, match="Out of range"):
        digest_json(float("nan"))


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_state_files_are_private_from_creation_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    seen = []
    before = os.umask(umask)
    try:
        with replacing(tmp_path / "home" / "refreshes" / "verdict.json") as temporary:
            seen.append(mode(temporary))
            temporary.write_text("{}")
        with replacing_directory(tmp_path / "home" / "windows") as temporary:
            seen.append(mode(temporary))
    finally:
        os.umask(before)
    home = tmp_path / "home"
    assert seen == [0o600, 0o700]
    assert mode(home / "refreshes" / "verdict.json") == 0o600
    assert [mode(path) for path in (home, home / "refreshes", home / "windows")] == [0o700] * 3


@pytest.mark.parametrize(("umask", "expected"), [(0o022, 0o644), (0o027, 0o640), (0o077, 0o600)])
def test_a_file_named_by_the_user_follows_the_umask(tmp_path: Path, umask: int, expected: int) -> None:
    before = os.umask(umask)
    try:
        write_text(tmp_path / "answer.json", "{}", shared=True)
    finally:
        os.umask(before)
    assert mode(tmp_path / "answer.json") == expected


def test_writing_never_changes_the_umask_of_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def changed(mask: int) -> int:
        raise AssertionError(f"the umask was set to {mask:o}")

    monkeypatch.setattr(os, "umask", changed)
    write_json(tmp_path / "verdict.json", {})
    write_text(tmp_path / "answer.json", "{}", shared=True)
    with replacing_directory(tmp_path / "set"):
        pass


def test_a_full_disk_gives_a_one_line_error_and_leaves_no_temporary_file(tmp_path: Path) -> None:
    with (
        no_file_above(4096),
        pytest.raises(StorageError, match=r"cannot write .*verdict\.json: File too large"),
    ):
        write_text(tmp_path / "verdict.json", "x" * 10_000)
    assert list(tmp_path.iterdir()) == []
    with no_file_above(4096), pytest.raises(StorageError), replacing_directory(tmp_path / "set") as temporary:
        (temporary / "items.parquet").write_bytes(b"x" * 10_000)
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_place_of_a_directory_gives_a_typed_error(tmp_path: Path) -> None:
    (tmp_path / "home").touch()
    with pytest.raises(StorageError, match="Not a directory"):
        write_text(tmp_path / "home" / "verdict.json", "{}")


def test_writing_to_a_device_does_not_replace_it(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    heard: list[str] = []
    reader = threading.Thread(target=lambda: heard.append(pipe.read_text()))
    reader.start()
    write_text(pipe, "{}", shared=True)
    reader.join(10)
    assert heard == ["{}"]
    assert pipe.is_fifo()


def mode(path: Path) -> int:
    """The permission bits."""
    return stat.S_IMODE(path.stat().st_mode)


def test_a_changed_digit_in_a_sealed_file_is_detected(tmp_path: Path) -> None:
    path = tmp_path / "score.json"
    written = {"nll": 0.6123, "by": {2: "two", 10: "ten"}, "pair": (1, 2)}
    write_json(path, written, sealed=True)
    assert read_json(path) == {"nll": 0.6123, "by": {"2": "two", "10": "ten"}, "pair": [1, 2]}
    path.write_text(path.read_text().replace("0.6123", "0.6023"))
    with pytest.raises(DamagedFile, match=r"score\.json.* changed after it was written"):
        read_json(path)
