"""KDD Cup 2010, Algebra I: the releases of 2005-06, 2006-07 and 2008-09 on one timeline."""

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from slc_ops.base.errors import InputError
from slc_ops.paper.datasets.published import Published, clean, read_columns

WHAT = "a KDD Cup 2010 Algebra file"
COLUMNS = (
    "Row", "Anon Student Id", "Problem Hierarchy", "Problem Name", "Problem View", "Step Name",
    "First Transaction Time", "Correct First Attempt",
)  # fmt: skip
SKILLS = {"2005": "KC(Default)", "2006": "KC(Default)", "2008": "KC(SubSkills)"}


def read_algebra(paths: Sequence[Path]) -> Published:
    """Read the releases ``algebra_2005_2006_train.txt``, ``…_2006_2007_…`` and ``…_2008_2009_…``.

    ``paths`` are the files or a directory that holds them. Each release numbers its students from the start,
    so their ids include the year; an item is a step of a problem, by name, and is the same in every release.
    The first skill of a step is its group.

    Columns: "Data Format" of the challenge (pslcdatashop.web.cmu.edu/KDDCup/rules_data_format.jsp), 17 and a
    pair ``KC(model)``, ``Opportunity(model)`` per skill model: ``Default`` in 2005-06 and 2006-07,
    ``SubSkills``, ``KTracedSkills`` and ``Rules`` in 2008-09.
    """
    parts, counts = zip(*(read_release(year, path) for year, path in find_releases(paths)), strict=True)
    total: Counter[str] = Counter()
    for each in counts:
        total.update(each)
    return Published(pa.concat_tables(parts), has_time=True, counts=dict(total))


def find_releases(paths: Sequence[Path]) -> list[tuple[str, Path]]:
    """Return year and file of each release, oldest first."""
    files = [
        file
        for path in paths
        for file in (sorted(path.rglob("algebra_*_train.txt")) if path.is_dir() else [path])
    ]
    found: dict[str, Path] = {}
    for file in files:
        match = re.search(r"algebra_(2005|2006|2008)_\d{4}", file.name)
        if match is None:
            raise InputError(
                f"{file} is not named like a release: expected algebra_2005_2006_train.txt, "
                "algebra_2006_2007_train.txt or algebra_2008_2009_train.txt"
            )
        if match[1] in found:
            raise InputError(f"two files of the {match[1]} release: {found[match[1]]} and {file}")
        found[match[1]] = file
    if not found:
        raise InputError(f"no algebra_*_train.txt in {', '.join(map(str, paths))}")
    return sorted(found.items())


def read_release(year: str, path: Path) -> tuple[pa.Table, dict[str, int]]:
    """Return the interactions of one release and the counts of omitted rows."""
    columns = dict.fromkeys((*COLUMNS, SKILLS[year]), pa.string())
    found = read_columns(path, columns, WHAT, pacsv.ParseOptions(delimiter="\t", quote_char=False))
    found, counts = clean(
        found,
        "Correct First Attempt",
        {"no time of the first transaction": ["First Transaction Time"], "no student": ["Anon Student Id"]},
        key=("Anon Student Id", "Problem Name", "Problem View", "Step Name", "First Transaction Time"),
    )
    try:
        clock = pc.cast(found["First Transaction Time"], pa.timestamp("us"))
    except pa.ArrowInvalid as error:
        raise InputError(f"{path}: First Transaction Time: {error}") from None
    joined = pc.binary_join_element_wise
    skill = pc.list_element(pc.split_pattern(pc.fill_null(found[SKILLS[year]], ""), "~~"), 0)
    rows = pa.table(
        {
            "event_id": joined(year, found["Row"], "-"),
            "user_id": joined(year, found["Anon Student Id"], "-"),
            "item_id": joined(
                pc.fill_null(found["Problem Name"], ""), pc.fill_null(found["Step Name"], ""), " / "
            ),
            "group_id": pc.if_else(pc.equal(skill, ""), None, skill),
            "label": pc.cast(found["Correct First Attempt"], pa.int8()),
            "clock": pc.cast(clock, pa.int64()),
        }
    )
    return rows, counts
