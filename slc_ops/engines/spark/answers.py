"""Functions that workers run on a split, and the results that add up."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from slc_ops.base.additive import Additive
from slc_ops.base.buffers import as_arrow
from slc_ops.base.digests import digest_file
from slc_ops.base.errors import InputError
from slc_ops.engines.spark.splits import SplitRows
from slc_ops.rows.passes import Partial, Pieces
from slc_ops.rows.rows import Columns, Kernel, Needs, Rows, joined


@dataclass
class Found(Additive):
    """Values by key, of some splits or files."""

    values: dict[Any, Any]


def rows_after(timestamp: float, rows: SplitRows) -> Found:
    """Count the rows of the split after a timestamp."""
    assert rows.log.time is not None  # noqa: S101 - a log without times is not cut
    return Found({rows.split.number: int(np.count_nonzero(rows.log.time > timestamp))})


def bytes_of(path: Path) -> Found:
    """Return the digest of a file's bytes."""
    try:
        return Found({path.name: digest_file(path)})
    except OSError as error:
        raise InputError(
            f"a worker of the cluster cannot read {path}: {error.strerror or error}; see that all workers "
            "share this path"
        ) from None


def table(rows: SplitRows) -> Pieces[pa.Table]:
    """Return all rows of the split."""
    log = rows.log
    table = log.as_table()
    if log.user_codes is not None:
        users = pa.DictionaryArray.from_arrays(as_arrow(log.user_codes), log.users)
        table = table.append_column("user_id", users)
    if log.groups is not None:
        codes = log.rows(0, log.n_rows, {"group"}).group
        assert codes is not None  # noqa: S101 - the log has groups
        table = table.append_column("group_id", log.groups.take(pa.array(codes, mask=codes < 0)))
    return Pieces([table])


Numbered = tuple[int, Rows]  # number of the first row, and the rows


def consecutive(pieces: list[Numbered], first: int, last: int) -> Rows:
    """Return consecutive rows, which may come from two splits."""
    found = [rows for begin, rows in pieces if first <= begin < last]
    return found[0] if len(found) == 1 else joined(found)


def sums(kernel: Kernel[Partial], needs: Needs, rows: SplitRows) -> Partial:
    """Return a kernel's sums over the split."""
    return rows.add_up(kernel, **needs)


def picked(wanted: list[tuple[int, int]], columns: Columns, rows: SplitRows) -> Pieces[Numbered]:
    """Return the wanted rows that lie in the split."""
    begin, end = rows.split.first, rows.split.first + rows.n_rows
    inside = [(max(first, begin), min(last, end)) for first, last in wanted if first < end and begin < last]
    return Pieces([(a, rows.rows(a - begin, b - begin, columns)) for a, b in inside])


def versions(rows: SplitRows) -> Found:
    """Return the backbone versions of the split."""
    return Found(dict.fromkeys(rows.log.backbone_versions))
