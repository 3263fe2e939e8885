"""ASSISTments: the skill-builder data of 2009-2010 and the data-mining competition of 2017."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from slc_ops.paper.datasets.published import Published, collapse, keep, one_file, read_columns, whole_text

NUMBER, TEXT = pa.float64(), pa.string()


def read_assistments2009(paths: Sequence[Path]) -> Published:
    """Read ``skill_builder_data.csv`` (or its corrected version).

    ``order_id`` orders and identifies the interactions. The file lists an interaction with several skills
    once per skill; the first is kept. The encoding is Latin-1.

    Columns: the owners' page "Skill-builder data 2009-2010" (sites.google.com/site/assistmentsdata) describes
    them, and the header of the file has 30, ``order_id`` to ``opportunity_original``.
    """
    what = "ASSISTments 2009 skill-builder data"
    columns = dict.fromkeys(("order_id", "user_id", "problem_id", "correct"), NUMBER) | {"skill_id": TEXT}
    found = read_columns(one_file(paths, what), columns, what)
    counts = {"rows in the file": found.num_rows}
    found = keep(found, counts, "label not 0 or 1", binary(found["correct"]))
    found = keep(
        found, counts, "no order, student or problem", complete(found, ("order_id", "user_id", "problem_id"))
    )
    found = collapse(found, ("order_id", "user_id", "problem_id"), counts)
    rows = pa.table(
        {
            "event_id": whole_text(found["order_id"]),
            "user_id": whole_text(found["user_id"]),
            "item_id": whole_text(found["problem_id"]),
            "group_id": found["skill_id"],
            "label": pc.cast(found["correct"], pa.int8()),
            "clock": pc.cast(found["order_id"], pa.int64()),
        }
    )
    return Published(rows, has_time=False, counts=counts)


def read_assistments2017(paths: Sequence[Path]) -> Published:
    """Read ``anonymized_full_release_competition_dataset.csv`` (one row per action, start in seconds).

    Columns: the header of the file has 82, ``studentId`` to ``isSTEM``, and calls the action ``action_num``
    (printed in docs/ASSISTments/ASSISTments2017.ipynb of github.com/tswsxk/EduData). The owners' description
    (sites.google.com/view/assistmentsdatamining/dataset) calls it ``actionId``; both are read.
    """
    what = "ASSISTments 2017 competition data"
    names = ("studentId", "action_num", "problemId", "startTime", "correct")
    columns = dict.fromkeys(names, NUMBER) | {"skill": TEXT}
    columns["action_num|actionId"] = columns.pop("action_num")
    found = read_columns(one_file(paths, what), columns, what)
    counts = {"rows in the file": found.num_rows}
    found = keep(found, counts, "label not 0 or 1", binary(found["correct"]))
    found = keep(found, counts, "no action, student, problem or time", complete(found, names))
    found = collapse(found, ("action_num", "studentId", "problemId", "startTime", "correct"), counts)
    rows = pa.table(
        {
            "event_id": whole_text(found["action_num"]),
            "user_id": whole_text(found["studentId"]),
            "item_id": whole_text(found["problemId"]),
            "group_id": found["skill"],
            "label": pc.cast(found["correct"], pa.int8()),
            "clock": pc.multiply(pc.cast(found["startTime"], pa.int64()), 1_000_000),
        }
    )
    return Published(rows, has_time=True, counts=counts)


def binary(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a mask of the labels 0 and 1."""
    return pc.is_in(values, value_set=pa.array([0.0, 1.0]))


def complete(rows: pa.Table, names: Sequence[str]) -> pa.ChunkedArray:
    """Return a mask of the rows with all of the named values."""
    whole = rows[names[0]].is_valid()
    for name in names[1:]:
        whole = pc.and_(whole, rows[name].is_valid())
    return whole
