"""ASSISTments: the skill-builder data of 2009-2010 and the data-mining competition of 2017."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from slc_ops.paper.datasets.published import Published, clean, one_file, read_columns, with_numbered_ids

NUMBER, TEXT = pa.float64(), pa.string()


def read_assistments2009(paths: Sequence[Path]) -> Published:
    """Read ``skill_builder_data.csv`` (or its corrected version).

    ``order_id`` orders and identifies the interactions. The file lists an interaction with several skills
    once per skill; the first is kept. The encoding is Latin-1.

    Columns: the owners' page "Skill-builder data 2009-2010" (sites.google.com/site/assistmentsdata) describes
    them, and the header of the file has 30, ``order_id`` to ``opportunity_original``.
    """
    what = "ASSISTments 2009 skill-builder data"
    names = ("order_id", "user_id", "problem_id", "correct")
    columns = dict.fromkeys(names, NUMBER) | {"skill_id": TEXT}
    found = read_columns(one_file(paths, what), columns, what)
    found, counts = clean(found, "correct", {"no order, student or problem": names[:3]}, key=names[:3])
    clock = pc.cast(found["order_id"], pa.int64())
    rows = with_numbered_ids(found, names, found["skill_id"], clock)
    return Published(rows, has_time=False, counts=counts)


def read_assistments2017(paths: Sequence[Path]) -> Published:
    """Read ``anonymized_full_release_competition_dataset.csv`` (one row per action, start in seconds).

    Columns: the header of the file has 82, ``studentId`` to ``isSTEM``, and calls the action ``action_num``
    (printed in docs/ASSISTments/ASSISTments2017.ipynb of github.com/tswsxk/EduData). The owners' description
    (sites.google.com/view/assistmentsdatamining/dataset) calls it ``actionId``; both are read.
    """
    what = "ASSISTments 2017 competition data"
    names = ("action_num", "studentId", "problemId", "correct")
    numbers = ("action_num|actionId", *names[1:], "startTime")
    columns = dict.fromkeys(numbers, NUMBER) | {"skill": TEXT}
    found = read_columns(one_file(paths, what), columns, what)
    key = (*names, "startTime")
    found, counts = clean(found, "correct", {"no action, student, problem or time": key}, key=key)
    clock = pc.multiply(pc.cast(found["startTime"], pa.int64()), 1_000_000)
    rows = with_numbered_ids(found, names, found["skill"], clock)
    return Published(rows, has_time=True, counts=counts)
