"""The paper's data sets, from files in their published formats."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from slc_ops.base.errors import InputError, OneClassError, SettingsError
from slc_ops.cli import app
from slc_ops.paper.datasets import READERS
from slc_ops.paper.datasets.backbone import backbone_logits, earlier_counts
from slc_ops.paper.datasets.ingest import ingest
from slc_ops.paper.datasets.published import Published
from slc_ops.paper.datasets.split import ordered, part_of
from tests.paper import published_files as files


@pytest.fixture
def as09(tmp_path: Path) -> Path:
    """Twelve students; two interactions listed again under a second skill, one invalid label."""
    rows: list[tuple[object, ...]] = [
        (1000 + n, 50 + u, 7000 + p, y, p % 3 + 1) for n, u, p, y in files.classroom()
    ]
    rows += [(*rows[5][:4], 9), (*rows[9][:4], 9), (5000, 50, 7000, 0.5, 1)]
    return files.assistments2009(tmp_path / "skill_builder_data.csv", rows)


@pytest.fixture
def as17(tmp_path: Path) -> Path:
    """Twelve students, one repeated action."""
    rows: list[tuple[object, ...]] = [
        (9000 + n, 8 + u, 600 + p, 1_096_470_301 + 60 * n, y, f"skill {p % 3}")
        for n, u, p, y in files.classroom()
    ]
    return files.assistments2017(tmp_path / "anonymized.csv", [*rows, rows[3]])


def release(year: int, kc: str) -> tuple[str, list[tuple[object, ...]], tuple[str, ...]]:
    rows: list[tuple[object, ...]] = [
        (
            n + 1,
            f"stu{u}",
            f"EG{p}",
            1,
            "3(x+2) = 15",
            f"{year}-09-{9 + n // 60:02d} 12:{n % 60:02d}:35.0",
            y,
            f"[{kc}-{p % 3}]~~other",
        )
        for n, u, p, y in files.classroom(students=4, seed=year)
    ]
    return (
        f"algebra_{year}_{year + 1}_train.txt",
        rows,
        ("SubSkills", "KTracedSkills", "Rules") if year == 2008 else ("Default",),
    )


@pytest.fixture
def algebra(tmp_path: Path) -> Path:
    """Three releases in three directories, one repeated row, one without a label."""
    root = tmp_path / "kdd"
    for year in (2005, 2006, 2008):
        name, rows, kc = release(year, "SkillRule")
        if year == 2006:
            rows += [(999, *rows[0][1:]), (1000, "stu1", "EG1", 2, "x", "2006-10-01 00:00:00.0", "", "")]
        files.algebra(root / name.removesuffix("_train.txt") / name, rows, kc)
    return root


@pytest.fixture
def eedi(tmp_path: Path) -> Path:
    """Twelve students, minute resolution, one answer without a date, one listed twice."""
    rows: list[tuple[object, ...]] = [
        (100 + n, u, 40 + p, y, f"2019-0{1 + n // 100}-10 {n // 60 % 24:02d}:{n % 60:02d}:00.000")
        for n, u, p, y in files.classroom()
    ]
    rows[7] = (*rows[7][:4], None)
    subjects = {40 + p: f"[3, 71, {90 + p % 2}]" for p in range(8)}
    return files.eedi(tmp_path / "data", [*rows, rows[20]], subjects)


def parts(out: Path) -> list[pa.Table]:
    return [pq.read_table(out / f"{name}.parquet") for name in ("history", "calibration", "test")]


@pytest.mark.slow
def test_assistments_2009_lists_each_interaction_once(tmp_path: Path, as09: Path) -> None:
    report = ingest("assistments2009", [as09], tmp_path / "out")
    assert report["left_out"]["rows in the file"] == 243
    assert report["left_out"]["repeated rows"] == 2
    assert report["left_out"]["label not 0 or 1"] == 1
    everything = pa.concat_tables(parts(tmp_path / "out"))
    assert everything.num_rows == len(everything["event_id"].unique()) == 240
    assert set(everything["group_id"].to_pylist()) == {"1", "2", "3"}
    assert "7003" in everything["item_id"].to_pylist()


def test_assistments_2017_counts_a_repeated_action(tmp_path: Path, as17: Path) -> None:
    report = ingest("assistments2017", [as17], tmp_path / "out")
    assert report["left_out"]["repeated rows"] == 1
    assert [report[name]["rows"] for name in ("history", "calibration", "test")] == [144, 48, 48]
    assert {row["group_id"] for row in parts(tmp_path / "out")[0].to_pylist()} == {
        "skill 0",
        "skill 1",
        "skill 2",
    }


def test_assistments_2017_reads_the_published_header_and_the_one_of_its_description(tmp_path: Path) -> None:
    rows: list[tuple[object, ...]] = [(9950 + n, 8, 1118 + n, 1_096_470_301 + n, 1, "s") for n in range(5)]
    published, described = (
        READERS["assistments2017"]([files.assistments2017(tmp_path / f"{name}.csv", rows, action=name)])
        for name in ("action_num", "actionId")
    )
    assert published.rows.equals(described.rows)
    assert published.rows["event_id"].to_pylist() == ["9950", "9951", "9952", "9953", "9954"]
    neither = files.assistments2017(tmp_path / "neither.csv", rows, action="number")
    with pytest.raises(InputError, match="no column 'action_num' or 'actionId'; it has: studentId"):
        READERS["assistments2017"]([neither])


@pytest.mark.parametrize(("header", "columns"), [(files.AS09, 30), (files.AS17, 82)])
def test_the_headers_of_the_test_files_are_as_long_as_the_published_ones(header: str, columns: int) -> None:
    assert len(header.split(",")) == len(set(header.split(","))) == columns


def test_algebra_merges_three_releases_on_one_timeline(tmp_path: Path, algebra: Path) -> None:
    report = ingest("algebra", [algebra], tmp_path / "out", time="clock")
    assert report["left_out"]["rows in the file"] == 242
    assert report["left_out"]["repeated rows"] == 1
    assert report["left_out"]["label not 0 or 1"] == 1
    everything = pa.concat_tables(parts(tmp_path / "out"))
    assert everything.num_rows == 240
    years = set(pc.year(everything["event_time"]).to_pylist())
    assert years == {2005, 2006, 2008}
    assert len(everything["user_id"].unique()) == 12
    assert "2005-stu0" in everything["user_id"].to_pylist()
    items = {tuple(group) for group in ([row["item_id"]] for row in everything.to_pylist())}
    assert len(items) == 8
    assert ("EG3 / 3(x+2) = 15",) in items
    assert set(everything["group_id"].to_pylist()) == {f"[SkillRule-{k}]" for k in range(3)}


def test_algebra_takes_files_as_well_as_a_directory(tmp_path: Path, algebra: Path) -> None:
    named = sorted(algebra.rglob("*.txt"))
    assert READERS["algebra"](named).rows.equals(READERS["algebra"]([algebra]).rows)


def test_latin_1_and_utf_8_files_of_algebra_give_the_same_rows(tmp_path: Path, algebra: Path) -> None:
    before = READERS["algebra"]([algebra]).rows
    for path in algebra.rglob("*.txt"):
        path.write_text(path.read_text().replace("stu", "stü"), encoding="utf-8")
    named = READERS["algebra"]([algebra]).rows
    for path in algebra.rglob("*.txt"):
        path.write_bytes(path.read_text(encoding="utf-8").encode("latin-1"))
    found = READERS["algebra"]([algebra]).rows
    assert found.equals(named)
    assert found.num_rows == before.num_rows
    assert any("ü" in user for user in found["user_id"].to_pylist())


def test_algebra_keeps_steps_without_a_name_and_drops_rows_without_a_student(tmp_path: Path) -> None:
    timestamp = "2005-09-09 12:24:{:02d}.0"
    rows: list[tuple[object, ...]] = [
        (k, "stu", "EG1", 1, "" if k % 2 else "step", timestamp.format(k // 2), 1, "") for k in range(10)
    ]
    rows += [(10, "", "EG1", 1, "step", timestamp.format(59), 1, "")]
    published = READERS["algebra"]([files.algebra(tmp_path / "algebra_2005_2006_train.txt", rows)])
    assert published.counts["no student"] == 1
    assert published.counts["repeated rows"] == 0
    assert set(published.rows["item_id"].to_pylist()) == {"EG1 / step", "EG1 / "}
    assert published.rows["group_id"].null_count == 10


def test_eedi_takes_time_and_subject_from_the_metadata(tmp_path: Path, eedi: Path) -> None:
    report = ingest("eedi", [eedi], tmp_path / "out", time="clock")
    assert report["left_out"]["repeated rows"] == 1
    assert report["left_out"]["no time in the metadata"] == 1
    everything = pa.concat_tables(parts(tmp_path / "out"))
    assert everything.num_rows == 239
    assert set(everything["group_id"].to_pylist()) == {"90", "91"}
    assert pc.year(everything["event_time"][0]).as_py() == 2019
    by_file = READERS["eedi"]([eedi / "train_data" / "train_task_1_2.csv"])
    assert by_file.rows.num_rows == 239


@pytest.mark.parametrize("dataset", ["as09", "as17", "algebra", "eedi"])
def test_the_split_is_strict_for_every_student(
    tmp_path: Path, dataset: str, request: pytest.FixtureRequest
) -> None:
    names = {"as09": "assistments2009", "as17": "assistments2017"}
    source = request.getfixturevalue(dataset)
    published = READERS[names.get(dataset, dataset)]([source])
    clock = dict(
        zip(published.rows["event_id"].to_pylist(), published.rows["clock"].to_pylist(), strict=True)
    )
    ingest(names.get(dataset, dataset), [source], tmp_path / "out")
    last: dict[str, int] = {}
    for part in parts(tmp_path / "out"):
        rows = part.to_pylist()
        for row in rows:
            assert clock[row["event_id"]] > last.get(row["user_id"], -(10**18))
        for row in rows:
            last[row["user_id"]] = max(last.get(row["user_id"], -(10**18)), clock[row["event_id"]])
    assert len(last) == 12


def students(*clocks: list[int]) -> Published:
    rows = [
        {
            "event_id": f"{u}-{k}",
            "user_id": str(u),
            "item_id": "i",
            "group_id": None,
            "label": 1,
            "clock": time,
        }
        for u, clock in enumerate(clocks)
        for k, time in enumerate(clock)
    ]
    return Published(pa.Table.from_pylist(rows), has_time=True)


def test_each_student_is_split_at_sixty_and_eighty_per_cent() -> None:
    rows = ordered(students(list(range(10)), [4, 3, 2, 1, 0]), min_rows=1)
    assert part_of(rows).tolist() == [0] * 6 + [1] * 2 + [2] * 2 + [0] * 3 + [1] + [2]
    assert rows["event_time"].to_pylist() == [*range(10), *range(5)]
    assert rows["event_id"].to_pylist()[10:] == ["1-4", "1-3", "1-2", "1-1", "1-0"]


def test_answers_with_one_timestamp_are_never_split() -> None:
    rows = ordered(students([0, 1, 2, 3, 4, 5, 5, 5, 5, 9]), min_rows=1)
    assert part_of(rows).tolist() == [0] * 9 + [2]


def test_students_with_few_rows_are_left_out_and_counted() -> None:
    published = students([1, 2], list(range(7)))
    assert ordered(published, min_rows=5).num_rows == 7
    assert published.counts["students with fewer than 5 rows"] == 1
    assert published.counts["rows of these students"] == 2


def test_ids_shared_by_two_events_are_regenerated() -> None:
    published = students(list(range(5)), list(range(5)))
    published.rows = published.rows.set_column(0, "event_id", pa.array(["same"] * 10))
    ids = ordered(published, min_rows=1)["event_id"].to_pylist()
    assert len(set(ids)) == 10


def test_counts_use_earlier_rows_only() -> None:
    draw = np.random.default_rng(3)
    user, skill, label = draw.integers(4, size=200), draw.integers(3, size=200), draw.integers(2, size=200)
    success, failure = earlier_counts(user, skill, label)
    for n in range(200):
        before = (user[:n] == user[n]) & (skill[:n] == skill[n])
        assert (success[n], failure[n]) == (label[:n][before].sum(), (1 - label[:n][before]).sum())


def test_the_backbone_uses_skills_and_no_items() -> None:
    draw = np.random.default_rng(5)
    n = 4000
    skill = draw.integers(2, size=n)
    rows = pa.table(
        {
            "user_id": pa.array([str(u) for u in draw.integers(40, size=n)]),
            "group_id": pa.array([["easy", None][s] for s in skill]),
            "item_id": pa.array([str(i) for i in draw.integers(5, size=n)]),
            "label": pa.array((draw.random(n) < np.where(skill == 0, 0.8, 0.3)).astype(np.int8)),
        }
    )
    train = np.arange(n) < 2400
    logits = backbone_logits(rows, train)
    assert logits[skill == 0].mean() > 1
    assert logits[skill == 1].mean() < -0.5
    renamed = rows.set_column(2, "item_id", pa.array(["other"] * n))
    assert np.array_equal(logits, backbone_logits(renamed, train))
    future = rows["label"].to_numpy().copy()
    future[-1] = 1 - future[-1]
    changed = rows.set_column(3, "label", pa.array(future))
    assert np.array_equal(logits, backbone_logits(changed, train))


def test_a_single_class_trains_no_backbone(tmp_path: Path) -> None:
    rows: list[tuple[object, ...]] = [(n, u, p, 1, 1) for n, u, p, _ in files.classroom()]
    with pytest.raises(OneClassError, match="one label only"):
        ingest("assistments2009", [files.assistments2009(tmp_path / "a.csv", rows)], tmp_path / "out")


def test_given_logits_are_joined_on_the_event_and_gaps_are_reported(tmp_path: Path, as17: Path) -> None:
    own = pa.table(
        {"event_id": [str(9000 + n) for n in range(10, 250)], "probability": [k / 239 for k in range(240)]}
    )
    pq.write_table(own, tmp_path / "mine.parquet")
    report = ingest("assistments2017", [as17], tmp_path / "out", logits=tmp_path / "mine.parquet")
    assert report["logits"] == {"events": 240, "without": 10, "unused": 10}
    everything = pa.concat_tables(parts(tmp_path / "out"))
    assert everything.num_rows == 230
    assert set(everything["backbone_version"].to_pylist()) == {"mine"}
    logit = dict(zip(everything["event_id"].to_pylist(), everything["logit"].to_pylist(), strict=True))
    assert logit["9010"] == pytest.approx(np.log(1e-6 / (1 - 1e-6)))
    assert logit["9100"] == pytest.approx(np.log(90 / 149))


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"event_id": ["a"], "score": [1.0]}, "needs the columns"),
        ({"event_id": ["9001", "9001"], "logit": [1.0, 2.0]}, "more than once"),
        ({"event_id": ["x1"], "logit": [1.0]}, "for none of the 240 events"),
        ({"event_id": ["9001"], "logit": [float("nan")]}, "not finite"),
        ({"event_id": ["9001"], "logit": ["high"]}, "expected numbers"),
        ({"event_id": ["9001"], "probability": [1.5]}, "is it a column of logits"),
    ],
)
def test_invalid_logits_are_refused(tmp_path: Path, as17: Path, table: dict[str, object], words: str) -> None:
    pq.write_table(pa.table(table), tmp_path / "mine.parquet")
    with pytest.raises(InputError, match=words):
        ingest("assistments2017", [as17], tmp_path / "out", logits=tmp_path / "mine.parquet")
    assert not (tmp_path / "out" / "ingest.json").exists()


@pytest.mark.parametrize("dataset", sorted(READERS))
def test_a_file_of_another_kind_is_refused(tmp_path: Path, dataset: str) -> None:
    wrong = tmp_path / "algebra_2005_2006_train.txt"
    wrong.write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match=r"has no column|there is no"):
        ingest(dataset, [wrong], tmp_path / "out")


def test_other_files_in_the_output_directory_are_refused(tmp_path: Path, as17: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.tex").write_text("mine")
    with pytest.raises(SettingsError, match=r"thesis\.tex"):
        ingest("assistments2017", [as17], tmp_path / "out")


def test_an_order_column_is_not_a_time(tmp_path: Path, as09: Path) -> None:
    with pytest.raises(SettingsError, match="no times"):
        ingest("assistments2009", [as09], tmp_path / "out", time="clock")


def test_the_command_writes_three_files_and_reports_omitted_rows(tmp_path: Path, as17: Path) -> None:
    runner = CliRunner()
    done = runner.invoke(app, ["ingest", "assistments2017", str(as17), "--out", str(tmp_path / "out")])
    assert done.exit_code == 0
    assert "repeated rows" in done.output
    again = runner.invoke(
        app, ["ingest", "assistments2017", str(as17), "--out", str(tmp_path / "out"), "--json", "-"]
    )
    assert json.loads(again.output) == json.loads((tmp_path / "out" / "ingest.json").read_text())
