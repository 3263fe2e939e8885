"""The item table: up to a million rows, searched and sorted, fifty per page.

The data are in two files: the parameter set's items (offset, shrinkage) and the detectability report's
(drift). They are never joined completely: the file with the sort column selects fifty items, and only these
are read from the other.
"""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slc_ops.base.files import read_json
from slc_ops.parameters import PARAMS, effect_file
from slc_ops.refresh.files import RefreshFiles

if TYPE_CHECKING:
    import pyarrow as pa

PAGE_ROWS = 50
LAST_PAGE = 20
"""The last page that can be opened; further items require a search."""

SORTS = {
    "item": ("parameters", "item_id"),
    "offset": ("parameters", "offset"),
    "size": ("parameters", "size"),
    "shrinkage": ("parameters", "shrinkage"),
    "observations": ("parameters", "n_obs"),
    "drift": ("detectability", "delta_obs"),
    "detectability": ("detectability", "delta_min"),
}

SHOWN = {"item_id", "offset", "offset_var", "n_obs", "shrinkage", "delta_min", "delta_obs", "detectable"}
"""Columns that are read; ``n_obs`` is that of the parameter set."""


@dataclass(frozen=True)
class ItemPage:
    """One page of items, with the counts."""

    rows: list[dict[str, Any]]
    items: int
    matching: int
    page: int
    pages: int


def find_items(
    parameters: Path,
    files: RefreshFiles,
    *,
    search: str = "",
    sort: str = "size",
    descending: bool = True,
    page: int = 1,
) -> ItemPage | None:
    """Return one page of a parameter set's item table; None if the method has no items."""
    from slc_ops.evidence.detectability import ITEMS as VISIBLE

    paths = {"parameters": parameters / effect_file("item"), "detectability": files.detectability / VISIBLE}
    tables = {name: _load(path, name) for name, path in paths.items() if _is_ours(path)}
    if "parameters" not in tables:
        return None
    source, column = SORTS.get(sort, SORTS["size"])
    if source not in tables:
        source, column = SORTS["size"]
    table = _search(tables[source], search)
    pages = max(1, min(LAST_PAGE, -(-table.num_rows // PAGE_ROWS)))
    page = max(1, min(page, pages))
    shown = _slice(table, column, descending, page)
    other = "detectability" if source == "parameters" else "parameters"
    rows = _merge(shown.to_pylist(), tables.get(other))
    return ItemPage(rows, tables["parameters"].num_rows, table.num_rows, page, pages)


def _is_ours(path: Path) -> bool:
    """Return True if the file exists and is not reached by a symbolic link."""
    files = [path, path.parent, path.parent / "params.json"]
    return path.is_file() and not any(each.is_symlink() for each in files)


def _load(path: Path, table: str) -> "pa.Table":
    """Load a table through a cache (files of a refresh never change) with room for two deployments."""
    return _read(path, table, path.stat().st_mtime_ns)


@lru_cache(maxsize=4)
def _read(path: Path, table_of: str, changed: int) -> "pa.Table":
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    ours = table_of == "parameters"
    wanted = SHOWN if ours else SHOWN - {"n_obs"}
    names = pq.read_schema(path).names
    table = pq.read_table(path, columns=[name for name in names if name in wanted or name == "id"])
    if ours:
        table = table.rename_columns({"id": "item_id"})
        table = _last_bin(table, path.parent)
        table = table.append_column("size", pc.abs(table["offset"]))
    if not pa.types.is_string(table.schema.field("item_id").type):
        names = pc.cast(table["item_id"], pa.string())
        table = table.set_column(table.schema.get_field_index("item_id"), "item_id", names)
    return table.combine_chunks()


def _last_bin(table: "pa.Table", directory: Path) -> "pa.Table":
    """Return each item's last time bin, which serves."""
    import pyarrow as pa

    edges = read_json(directory / PARAMS)["effects"]["item"]["time_edges"]
    if edges is None:
        return table
    bins = len(edges) - 1
    return table.take(pa.array(range(bins - 1, table.num_rows, bins)))


def _search(table: "pa.Table", text: str) -> "pa.Table":
    import pyarrow.compute as pc

    text = text.strip()
    if not text:
        return table
    return table.filter(pc.match_substring(table["item_id"], text, ignore_case=True))


def _slice(table: "pa.Table", column: str, descending: bool, page: int) -> "pa.Table":
    """Return one page in sort order, without sorting the whole table; rows without a value come last.

    Rows of a parameter set are in item order, and equal values keep that order.
    """
    import numpy as np
    import pyarrow as pa

    first, last = (page - 1) * PAGE_ROWS, min(page * PAGE_ROWS, table.num_rows)
    if column == "item_id":
        rows = np.arange(table.num_rows)[:: -1 if descending else 1][first:last]
        return table.take(pa.array(rows))
    values = table[column].to_numpy().astype(np.float64)
    keys = np.where(np.isnan(values), np.inf, -values if descending else values)
    if last < len(keys):
        limit = np.partition(keys, last - 1)[last - 1]
        better = np.flatnonzero(keys < limit)
        chosen = np.concatenate([better, np.flatnonzero(keys == limit)[: last - len(better)]])
    else:
        chosen = np.arange(len(keys))
    ordered = chosen[np.lexsort((chosen, keys[chosen]))]
    return table.take(pa.array(ordered[first:last]))


def _merge(rows: list[dict[str, Any]], other: "pa.Table | None") -> list[dict[str, Any]]:
    """Add the other table's columns to these items."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if other is None or not rows:
        return rows
    wanted = pa.array([row["item_id"] for row in rows], pa.string())
    found = other.filter(pc.is_in(other["item_id"], value_set=wanted)).to_pylist()
    by_item = {row["item_id"]: row for row in found}
    return [{**by_item.get(row["item_id"], {}), **row} for row in rows]
