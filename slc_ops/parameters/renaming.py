"""Rename items: carry the offsets of a parameter set over to new ids."""

import csv
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slc_ops.base.buffers import as_arrow, as_numpy
from slc_ops.base.errors import InputError
from slc_ops.parameters.parameter_set import ParameterSet

COLUMNS = ("old_id", "new_id")


def read_mapping(path: Path) -> dict[str, str]:
    """Read the map from old to new ids from a CSV file with the columns ``old_id`` and ``new_id``.

    Each id occurs once, and none is both old and new (a chain or a cycle).
    """
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file, strict=True)
            if tuple(reader.fieldnames or ()) != COLUMNS:
                found = ", ".join(reader.fieldnames or ()) or "nothing"
                raise InputError(f"{path} has the columns {found}; expected {' and '.join(COLUMNS)}")
            rows = [(row["old_id"], row["new_id"]) for row in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path} cannot be read as a mapping of ids: {error}") from None
    if bad := [number for number, row in enumerate(rows, start=2) if not all(row)]:
        raise InputError(f"{path}, line {bad[0]} lacks an old or a new id; each line needs both")
    if not rows:
        raise InputError(f"{path} maps no id; expected lines of {' and '.join(COLUMNS)}")
    for column, name in enumerate(COLUMNS):
        repeated = [each for each, count in Counter(row[column] for row in rows).items() if count > 1]
        if repeated:
            raise InputError(f"{path} has the {name} {repeated[0]!r} more than once; each may occur once")
    mapping = dict(rows)
    if both := sorted(set(mapping) & set(mapping.values())):
        raise InputError(
            f"{path} has {both[0]!r} both as an old and as a new id (a chain or a circle); write one line "
            "from each id of the parameter set to its last name"
        )
    return mapping


def renamed(parameters: ParameterSet, mapping: dict[str, str]) -> ParameterSet:
    """Return the same parameters under the new ids, with offsets, variances and counts."""
    effect = parameters.effects.get("item")
    if effect is None:
        raise InputError(f"{parameters.method} uses only the score and has no items to rename")
    ids = effect.table.column("id").combine_chunks()
    known = {str(each) for each in pc.unique(ids).to_pylist()}
    if unknown := sorted(set(mapping) - known):
        more = f" (and {len(unknown) - 1} more)" if len(unknown) > 1 else ""
        raise InputError(f"the parameter set has no item {unknown[0]!r}{more}; map ids that it has")
    if taken := sorted(set(mapping.values()) & known):
        raise InputError(f"the item {taken[0]!r} has an offset of its own; two items cannot become one")
    new = _typed([mapping.get(str(each), each) for each in ids.to_pylist()], ids.type)
    # Rows stay sorted by id; the bins of an item stay together and in order.
    order = np.lexsort((np.arange(len(new)), as_numpy(pc.rank(new, tiebreaker="min"))))
    place = effect.table.schema.names.index("id")
    table = effect.table.set_column(place, "id", new).take(as_arrow(order))
    return parameters.with_effect("item", replace(effect, table=table))


def _typed(ids: list[Any], kind: pa.DataType) -> pa.Array:
    try:
        return pa.array([int(each) for each in ids] if pa.types.is_integer(kind) else ids, kind)
    except (ValueError, OverflowError, pa.ArrowInvalid):
        raise InputError(
            f"the items of the set have ids of type {kind}; a new id is of another type"
        ) from None
