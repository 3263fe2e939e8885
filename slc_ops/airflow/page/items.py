"""The item table: up to a million rows, searched and sorted, fifty per page.

It joins two files: the parameter set's items (offset, shrinkage) and the detectability report's (drift).
"""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from slc_ops.base.files import read_json
from slc_ops.evidence.detectability import ITEMS as VISIBLE
from slc_ops.observability.stored import Origin, is_ours
from slc_ops.parameters import PARAMS, effect_file
from slc_ops.settings.environment import Installation

PAGE_ROWS = 50
LAST_PAGE = 20
"""The last page that can be opened; further items require a search."""

SORTS = {
    "item": "row",
    "offset": "offset",
    "size": "size",
    "shrinkage": "shrinkage",
    "observations": "n_obs",
    "drift": "delta_obs",
    "detectability": "delta_min",
}
"""Sort key of the page → column of the table."""


@dataclass(frozen=True)
class ItemPage:
    """One page of items, with the counts."""

    rows: list[dict[str, Any]]
    items: int
    matching: int
    page: int
    pages: int


def find_items(
    installation: Installation,
    origin: Origin,
    *,
    search: str = "",
    sort: str = "size",
    descending: bool = True,
    page: int = 1,
) -> ItemPage | None:
    """Return one page of a parameter set's item table; None if the method has no items."""
    offsets, drifts = origin.parameters / effect_file("item"), origin.files.detectability / VISIBLE
    if not (is_ours(installation, offsets) and is_ours(installation, origin.parameters / PARAMS)):
        return None
    known = drifts if is_ours(installation, drifts) else None
    table = _read(offsets, offsets.stat().st_mtime_ns, known)
    found = table.filter(pc.match_substring(table["item_id"], search.strip(), ignore_case=True))
    pages = max(1, min(LAST_PAGE, -(-found.num_rows // PAGE_ROWS)))
    page = max(1, min(page, pages))
    column = SORTS.get(sort, "size")
    column = column if column in table.column_names else "size"
    keys = [(column, "descending" if descending else "ascending"), ("row", "ascending")]
    order = pc.sort_indices(found, sort_keys=keys)  # rows without a value come last
    shown = found.take(order.slice((page - 1) * PAGE_ROWS, PAGE_ROWS))
    return ItemPage(shown.to_pylist(), table.num_rows, found.num_rows, page, pages)


@lru_cache(maxsize=4)
def _read(offsets: Path, changed: int, drifts: Path | None) -> pa.Table:
    """Return the items in the order of the parameter set, with their drift; the files never change."""
    wanted = ("id", "offset", "offset_var", "n_obs", "shrinkage")
    known = pq.read_schema(offsets).names
    names = [name for name in wanted if name in known]
    table = pq.read_table(offsets, columns=names)
    table = table.set_column(0, "item_id", pc.cast(table["id"], pa.string()))
    edges = read_json(offsets.parent / PARAMS)["effects"]["item"]["time_edges"]
    if edges is not None:  # the last time bin serves
        bins = len(edges) - 1
        table = table.take(pa.array(range(bins - 1, table.num_rows, bins)))
    if drifts is not None:
        seen = pq.read_table(drifts, columns=["item_id", "delta_min", "delta_obs", "detectable"])
        place = pc.index_in(table["item_id"], value_set=pc.cast(seen["item_id"], pa.string()))
        for name in ("delta_min", "delta_obs", "detectable"):
            table = table.append_column(name, seen[name].take(place))
    table = table.append_column("size", pc.abs(table["offset"]))
    return table.append_column("row", pa.array(np.arange(table.num_rows))).combine_chunks()
