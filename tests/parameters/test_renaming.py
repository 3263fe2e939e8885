"""Renamed items keep their offsets; an incomplete or ambiguous mapping is refused."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from slc_ops.base.errors import InputError
from slc_ops.cli import app
from slc_ops.parameters.parameter_set import ParameterSet
from slc_ops.parameters.renaming import read_mapping, renamed
from tests.registry.factory import parameter_set


def mapping(path: Path, *lines: str, header: str = "old_id,new_id") -> Path:
    path.write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("method", ["slc", "slc_t"])
def test_a_renamed_item_keeps_its_correction(tmp_path: Path, method: str) -> None:
    old = ParameterSet.read(parameter_set(tmp_path / "old", method=method))
    file = mapping(tmp_path / "map.csv", "item-3,aufgabe ☃", "item-7,zz")
    renamed(old, read_mapping(file)).write(tmp_path / "new")
    new = ParameterSet.read(tmp_path / "new")
    logits, times = [0.3, -1.0, 2.0], [10.0, 300.0, 599.0]
    before = old.correct(["item-3", "item-7", "item-1"], logits, times).tolist()
    assert new.correct(["aufgabe ☃", "zz", "item-1"], logits, times).tolist() == before
    unknown = old.correct(["never seen"] * 2, logits[:2], times[:2]).tolist()
    assert new.correct(["item-3", "item-7"], logits[:2], times[:2]).tolist() == unknown
    assert new.items is not None
    assert new.items.column("id").to_pylist() == sorted(new.items.column("id").to_pylist())


def test_integer_ids_stay_integers(tmp_path: Path) -> None:
    old = ParameterSet.read(parameter_set(tmp_path / "old", integer_ids=True))
    new = renamed(old, {"3": "1003"})
    assert new.correct([1003], [0.1]).tolist() == old.correct([3], [0.1]).tolist()
    with pytest.raises(InputError, match="of another type"):
        renamed(old, {"3": "three"})


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (["a,b", "b,a"], "both as an old and as a new id"),
        (["a,a"], "both as an old and as a new id"),
        (["a,b", "b,c"], "both as an old and as a new id"),
        (["a,b", "a,c"], "old_id 'a' more than once"),
        (["a,c", "b,c"], "new_id 'c' more than once"),
        (["a,"], "line 2 lacks"),
        (["a"], "line 2 lacks"),
        ([], "maps no id"),
    ],
)
def test_an_ambiguous_mapping_is_refused(tmp_path: Path, lines: list[str], why: str) -> None:
    with pytest.raises(InputError, match=why):
        read_mapping(mapping(tmp_path / "map.csv", *lines))


def test_an_invalid_mapping_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected old_id and new_id"):
        read_mapping(mapping(tmp_path / "map.csv", "a,b", header="from,to"))
    with pytest.raises(InputError, match="cannot be read"):
        read_mapping(tmp_path / "absent.csv")
    (tmp_path / "bytes.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="cannot be read"):
        read_mapping(tmp_path / "bytes.csv")


def test_unknown_ids_and_ids_in_use_are_refused(tmp_path: Path) -> None:
    old = ParameterSet.read(parameter_set(tmp_path / "old"))
    with pytest.raises(InputError, match=r"no item 'nobody' \(and 1 more\)"):
        renamed(old, {"nobody": "x", "nothing": "y"})
    with pytest.raises(InputError, match="no item 'nobody'; map ids"):
        renamed(old, {"nobody": "x"})
    with pytest.raises(InputError, match="'item-4' has an offset of its own"):
        renamed(old, {"item-3": "item-4"})
    with pytest.raises(InputError, match="no items to rename"):
        renamed(ParameterSet.read(parameter_set(tmp_path / "platt", method="platt")), {"a": "b"})


def test_the_command_writes_a_servable_set_and_refuses_in_one_line(tmp_path: Path) -> None:
    source = str(parameter_set(tmp_path / "old"))
    file = str(mapping(tmp_path / "map.csv", "item-3,new-3"))
    command = ["rename-items", "--params", source, "--mapping", file, "--out", str(tmp_path / "new")]
    done = CliRunner().invoke(app, command, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert "1 item renamed" in done.output
    old, new = ParameterSet.read(tmp_path / "old"), ParameterSet.read(tmp_path / "new")
    assert new.correct(["new-3"], [0.0]).tolist() == old.correct(["item-3"], [0.0]).tolist()
