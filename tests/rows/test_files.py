"""Common file formats: which are read, and the messages for the others."""

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slc_ops.base.errors import InputError
from slc_ops.rows.interactions import InteractionLog

HEADER = "pid,correct,score,when"
ROWS = [("a", 1, 0.5, 1), ("b", 0, -1.0, 2), ("a", 0, 0.25, 3), ("b", 1, 2.0, 4)]
NAMES = {"item_id": "pid", "label": "correct", "logit": "score", "event_time": "when"}


def csv(rows: list[tuple[object, ...]] = ROWS, separator: str = ",") -> str:  # type: ignore[assignment]
    lines = [separator.join(str(value) for value in row) for row in rows]
    return "\n".join([HEADER.replace(",", separator), *lines]) + "\n"


def json_lines() -> str:
    names = HEADER.split(",")
    return "".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in ROWS)


def packed(text: str, path: Path) -> None:
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    elif path.suffix == ".zst":
        with pa.CompressedOutputStream(str(path), "zstd") as stream:
            stream.write(text.encode())
    else:
        path.write_text(text)


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
@pytest.mark.parametrize("kind", [".csv", ".jsonl", ".ndjson"])
def test_compressed_csv_and_json_lines_give_the_same_log(kind: str, suffix: str, tmp_path: Path) -> None:
    packed(csv() if kind == ".csv" else json_lines(), tmp_path / f"rows{kind}{suffix}")
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "rows.csv").write_text(csv())
    expected = InteractionLog.read(tmp_path / "plain" / "rows.csv", rename=NAMES).digest()
    assert InteractionLog.read(tmp_path / f"rows{kind}{suffix}", rename=NAMES).digest() == expected


def changed(column: int, *values: object) -> str:
    rows = [list(row) for row in ROWS]
    for row, value in zip(rows, values, strict=False):
        row[column] = value
    return csv([tuple(row) for row in rows])


SAID = {
    "labels that are text": (
        changed(1, "yes", "no", "no", "yes"),
        r"column 'correct' \(label\) of .*rows.csv: it is of type string, for example 'yes'; .*0 and 1.*"
        "yes is 1",
    ),
    "semicolons": (
        csv(separator=";"),
        r"rows.csv has one column 'pid;correct;score;when'.*semicolons.*sep=';'",
    ),
    "tabs": (csv(separator="\t"), "separated by tabs"),
    "names of zones": (
        changed(3, *["2026-03-02 10:00:00 Europe/Berlin"] * 4),
        r"'when' \(event_time\).*for example '2026-03-02 10:00:00 Europe/Berlin'; .*UTC as 2026-",
    ),
    "ids beyond 64 bits": (
        changed(0, *[str(2**64 + k) for k in range(4)]),
        r"'pid' \(item_id\).*double.*beyond 64 bits lose their last digits.*as text",
    ),
    "a label of 2": (changed(1, 1, 2), r"'correct' \(label\).*1 row where it is not 0 or 1.*row 1 .*with 2;"),
    "a score that is no number": (
        changed(2, "high"),
        r"'score' \(logit\).*for example 'high'; expected numbers",
    ),
}


@pytest.mark.parametrize("what", SAID)
def test_the_message_names_file_column_value_and_remedy(what: str, tmp_path: Path) -> None:
    text, said = SAID[what]
    (tmp_path / "rows.csv").write_text(text)
    with pytest.raises(InputError, match=said) as caught:
        InteractionLog.read(tmp_path / "rows.csv", rename=NAMES, times=True)
    assert "\n" not in str(caught.value)


def test_unsigned_ids_beyond_63_bits_are_named(tmp_path: Path) -> None:
    table = pa.table({"item_id": pa.array([1, 2**64 - 1], pa.uint64()), "label": [0, 1], "logit": [0.0, 1.0]})
    pq.write_table(table, tmp_path / "rows.parquet")
    with pytest.raises(
        InputError, match=r"'item_id' of .*rows.parquet.*18446744073709551615.*have to be text"
    ):
        InteractionLog.read(tmp_path / "rows.parquet")


def test_renaming_a_missing_column_lists_the_existing_ones(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text(csv())
    with pytest.raises(InputError, match="no column problem to rename; it has pid, correct, score, when"):
        InteractionLog.read(tmp_path / "rows.csv", rename={**NAMES, "item_id": "problem"})
