"""Deleted, truncated or altered files of the home are named in one line, with the remedy."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slc_ops.base.errors import DamagedFile, InputError, MissingFile
from slc_ops.evidence.scoring import ITEMS, SCORE, USERS
from slc_ops.refresh import pipeline
from slc_ops.refresh.plan import Plan
from slc_ops.settings.environment import Installation
from tests.refresh.school import NEWEST, change_week, open_school, use_home

pytestmark = pytest.mark.slow

Damage = Callable[[Path], object]


def flip(column: str) -> Damage:
    """Flip one bit of a column's stored values."""

    def damage(path: Path) -> None:
        group = pq.ParquetFile(path).metadata.row_group(0)
        chunks = [group.column(k) for k in range(group.num_columns)]
        (chunk,) = (chunk for chunk in chunks if chunk.path_in_schema == column)
        data = bytearray(path.read_bytes())
        data[chunk.data_page_offset + chunk.total_compressed_size // 2] ^= 0x10
        path.write_bytes(data)

    return damage


def cut_off(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def without_half_its_fields(path: Path) -> None:
    value = json.loads(path.read_text())
    path.write_text(json.dumps({name: value[name] for name in sorted(value)[::2]}))


def change_a_digit(path: Path) -> None:
    """Valid JSON with every field, but another value of a metric."""
    text = path.read_text()
    found = re.search(r"0\.\d{3}(\d)", text)
    assert found
    digit = str((int(found[1]) + 1) % 10)
    path.write_text(text[: found.start(1)] + digit + text[found.end(1) :])


def planned(installation: Installation) -> Plan:
    pipeline.extract(installation, "school", NEWEST)
    return pipeline.read_plan(pipeline.validate(installation, "school", NEWEST))


@pytest.fixture(scope="module")
def planned_home(lake: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home whose newest week is planned, with a copy beside it."""
    home = tmp_path_factory.mktemp("planned") / "home"
    with pytest.MonkeyPatch.context() as patch:
        planned(open_school(home, lake, patch))
    shutil.copytree(home, home.with_name("kept"))
    return home


@pytest.fixture
def school(planned_home: Path, monkeypatch: pytest.MonkeyPatch) -> Installation:
    """The planned home as it was, at the same path, which its files contain."""
    shutil.rmtree(planned_home)
    shutil.copytree(planned_home.with_name("kept"), planned_home)
    return use_home(planned_home, monkeypatch)


def no_temporary_file(directory: Path) -> bool:
    return not [path for path in directory.rglob(".*") if path.name != ".lock"]


@pytest.mark.parametrize("damage", [flip("label"), flip("logit"), cut_off, Path.unlink])
def test_a_damaged_stored_window_stops_the_refresh(school: Installation, damage: Damage) -> None:
    planned(school)
    log = school.windows("school") / NEWEST.before(1)[0].key / "log.parquet"
    damage(log)
    with pytest.raises(
        (DamagedFile, MissingFile), match=rf"^{log} is .*; restore it, or remove {log.parent} "
    ) as reported:
        planned(school)
    assert "\n" not in str(reported.value)
    assert no_temporary_file(school.home)


def test_the_remedy_in_the_message_works(school: Installation) -> None:
    before = planned(school)
    log = school.windows("school") / NEWEST.key / "log.parquet"
    flip("label")(log)
    with pytest.raises(DamagedFile):
        planned(school)
    for path in sorted(log.parent.iterdir()):
        path.unlink()
    log.parent.rmdir()
    assert planned(school).input_digest == before.input_digest


def test_damaged_clean_rows_stop_the_refresh(school: Installation) -> None:
    def one_bad_row(week: pa.Table) -> pa.Table:
        logits = week["logit"].to_pylist()
        logits[5] = float("nan")
        return week.set_column(week.schema.get_field_index("logit"), "logit", pa.array(logits))

    change_week(school, NEWEST, one_bad_row)
    clean = planned(school).newest.validation["clean_path"]
    assert clean.endswith("clean.parquet")
    flip("label")(Path(clean))
    with pytest.raises(DamagedFile, match=clean):
        planned(school)
    Path(clean).unlink()
    with pytest.raises(MissingFile, match=clean):
        planned(school)


@pytest.mark.parametrize("name", ["manifest.json", "validation.json", "statistics.json"])
@pytest.mark.parametrize("damage", [cut_off, without_half_its_fields])
def test_a_damaged_record_of_a_window_is_named(school: Installation, name: str, damage: Damage) -> None:
    planned(school)
    path = school.windows("school") / NEWEST.key / name
    if name == "statistics.json":  # read if the verdict is not cached
        (path.parent / "validation.json").unlink()
    damage(path)
    with pytest.raises(InputError, match=rf"^{path} .*remove {path.parent} "):
        planned(school)


@pytest.mark.parametrize("damage", [cut_off, without_half_its_fields])
def test_a_damaged_verdict_on_an_earlier_window_is_named(school: Installation, damage: Damage) -> None:
    path = school.windows("school") / NEWEST.before(2)[0].key / "as_earlier_window.json"
    damage(path)
    with pytest.raises(InputError, match=rf"^{path} .*remove {path.parent} "):
        planned(school)


@pytest.mark.parametrize("damage", [cut_off, without_half_its_fields, Path.unlink])
def test_a_damaged_plan_is_named(school: Installation, damage: Damage) -> None:
    path = planned(school).path
    damage(path)
    with pytest.raises(InputError, match=rf"^{path} is .*remove {path.parent} "):
        pipeline.read_plan(path)


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        (SCORE, cut_off),
        (SCORE, without_half_its_fields),
        (SCORE, change_a_digit),
        (USERS, cut_off),
        (USERS, flip("positive")),
        (USERS, Path.unlink),
    ],
)
def test_a_damaged_score_is_named(school: Installation, name: str, damage: Damage) -> None:
    plan = planned(school)
    for fold in pipeline.folds_of(plan).folds:
        pipeline.fit(plan, fold)
    (path,) = (path for path in plan.files.scores.glob(f"*/slc/{name}") if (path.parent / ITEMS).exists())
    damage(path)
    with pytest.raises(InputError, match=rf"^{path} is .*remove {path.parent} "):
        pipeline.backtest(school, plan)


def test_the_command_line_reports_it_in_one_line_and_exits_with_2(school: Installation) -> None:
    planned(school)
    log = school.windows("school") / NEWEST.key / "log.parquet"
    flip("label")(log)
    slc_ops = Path(sys.executable).parent / "slc-ops"
    command = [slc_ops, "refresh", "--deployment", "school", "--window", str(NEWEST)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("slc-ops:")]
    assert str(log) in line
    assert f"remove {log.parent}" in line
    assert "Traceback" not in done.stderr
