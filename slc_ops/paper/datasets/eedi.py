"""Eedi, the NeurIPS 2020 education challenge, tasks 1 and 2."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from slc_ops.base.errors import InputError
from slc_ops.paper.datasets.published import Published, clean, keep, read_columns, with_numbered_ids

NUMBER, TEXT = pa.float64(), pa.string()
ANSWERS = "train_task_1_2.csv"
TIMES = "answer_metadata_task_1_2.csv"
QUESTIONS = "question_metadata_task_1_2.csv"


def read_eedi(paths: Sequence[Path]) -> Published:
    """Read the unpacked ``data`` directory of the challenge, or its ``train_data/train_task_1_2.csv``.

    Answers have no time; ``metadata/answer_metadata_task_1_2.csv`` has it, to the minute. The last subject of
    a question in ``metadata/question_metadata_task_1_2.csv`` is the most specific one and becomes the group.

    Columns: the challenge's guide, "Instructions and Guide for Diagnostic Questions: The NeurIPS 2020
    Education Challenge" (arXiv 2007.12061), sections on the primary data and on the metadata.
    """
    if len(paths) != 1:
        raise InputError(f"eedi reads one directory, not {len(paths)} paths")
    root = paths[0]
    if not root.is_dir():
        if root.name != ANSWERS:
            raise InputError(f"{root} is not {ANSWERS}; there is no other file to begin with")
        root = root.parent.parent
    names = ("AnswerId", "UserId", "QuestionId", "IsCorrect")
    found = read_columns(locate(root, ANSWERS), dict.fromkeys(names, NUMBER), "the Eedi answers")
    found, counts = clean(found, "IsCorrect", {}, key=("AnswerId",))
    found = found.append_column("time", timestamps(root, found["AnswerId"]))
    found = keep(found, counts, "no time in the metadata", found["time"].is_valid())
    subject = subjects(root, found["QuestionId"])
    rows = with_numbered_ids(found, names, subject, pc.cast(found["time"], pa.int64()))
    return Published(rows, has_time=True, counts=counts)


def locate(root: Path, name: str) -> Path:
    """Return the path of a file of the challenge, in its folders or without them."""
    for folder in (".", "train_data", "metadata", "data/train_data", "data/metadata"):
        if (root / folder / name).exists():
            return root / folder / name
    raise InputError(f"there is no {name} in {root}; unpack the challenge's data.zip there")


def timestamps(root: Path, answers: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the time of each answer; null if the metadata lack it. Some ids there are empty or 7.0."""
    path = locate(root, TIMES)
    metadata = read_columns(path, {"AnswerId": NUMBER, "DateAnswered": TEXT}, "the Eedi answer metadata")
    metadata = metadata.filter(metadata["AnswerId"].is_valid())
    try:
        times = pc.cast(metadata["DateAnswered"], pa.timestamp("us"))
    except pa.ArrowInvalid as error:
        raise InputError(f"{path}: DateAnswered: {error}") from None
    return times.take(pc.index_in(answers, value_set=metadata["AnswerId"]))


def subjects(root: Path, questions: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return each question's most specific subject: the last number of a list such as ``[3, 71, 98]``."""
    path = locate(root, QUESTIONS)
    metadata = read_columns(path, {"QuestionId": NUMBER, "SubjectId": TEXT}, "the Eedi question metadata")
    last = pc.struct_field(pc.extract_regex(metadata["SubjectId"], r"(?P<last>\d+)\s*\]"), "last")
    return last.take(pc.index_in(questions, value_set=metadata["QuestionId"]))
