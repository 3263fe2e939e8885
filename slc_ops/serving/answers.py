"""Correct rows and return probabilities with their version, method, unknown ids and interval."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slc_ops.base.buffers import as_arrow
from slc_ops.base.errors import BackboneMismatch, InputError
from slc_ops.numerics.curves import Affine
from slc_ops.parameters.effects import Positions
from slc_ops.parameters.parameter_set import Found, ParameterSet
from slc_ops.serving.counts import EXAMPLES, Missed, mismatch_sentence
from slc_ops.serving.snapshot import Snapshot

Floats = NDArray[np.float64]
Part = tuple[Snapshot, Positions, str | None]
"""The rows of a call for one parameter set and one backbone version."""
_FROZEN = ParameterSet("base", Affine())


class Columns(NamedTuple):
    """The rows of a call: lists, arrays or Arrow columns of equal length; the given ids by effect."""

    logits: Any
    ids: Mapping[str, Any]
    time: Any = None

    def single(self) -> "Columns | None":
        """Return the values of the only row, if all columns are lists of length 1; otherwise None."""
        logits, ids, time = self
        for each in (logits, *ids.values(), [0] if time is None else time):
            if type(each) is not list or len(each) != 1:
                return None
        one = {name: each[0] for name, each in ids.items()}
        return Columns(logits[0], one, None if time is None else time[0])

    def listed(self) -> "Columns":
        """Return a row of single values as columns of length 1."""
        ids = {name: [one] for name, one in self.ids.items()}
        return Columns([self.logits], ids, None if self.time is None else [self.time])

    def take(self, rows: Positions) -> "Columns":
        """Return the rows at these positions."""
        ids = {name: _take(each, rows) for name, each in self.ids.items()}
        return Columns(_take(self.logits, rows), ids, None if self.time is None else _take(self.time, rows))


class Answer(NamedTuple):
    """Probabilities and their origin; all of one version unless ``versions`` is set."""

    probability: Floats | list[float]
    """A list for one row that was given in lists, which needs no arrays."""
    version: int | None
    """None for a set from a directory, and if champion and challenger both answered rows."""
    method: str | None
    unknown: dict[str, int]
    """Effect → number of rows with an unknown id."""
    mismatched: int = 0
    """Number of rows whose backbone is not the one of the fit."""
    low: Floats | None = None
    high: Floats | None = None
    versions: NDArray[np.int64] | None = None
    """The version of each row, if they differ."""


def answer_part(snapshot: Snapshot, columns: Columns, backbone_version: str | None, interval: bool) -> Answer:
    """Answer rows with one parameter set; a list of one row is answered without arrays."""
    one = None if interval else columns.single()
    low = high = None
    if one is not None:
        single, missed, used = correct_row(snapshot, one, backbone_version)
        found: Floats | list[float] = [single]
    else:
        found, missed, used, rows = correct_rows(snapshot, columns, backbone_version)
        low, high = used.interval(rows) if interval else (None, None)
    unknown = dict.fromkeys(snapshot.parameters.effects, 0)
    for name, (count, _) in missed.items():
        unknown[name] = count
    mismatched = len(found) if used is _FROZEN else 0
    return Answer(found, snapshot.version, snapshot.parameters.method, unknown, mismatched, low, high)


def answer_parts(parts: list[Part], columns: Columns, interval: bool) -> Answer:
    """Answer rows of several sets or backbones and return them in the order of the call."""
    count = len(columns.logits)
    probability, versions = np.empty(count), np.empty(count, np.int64)
    limits = {"low": np.full(count, np.nan), "high": np.full(count, np.nan)} if interval else {}
    unknown: dict[str, int] = {}
    mismatched = 0
    for snapshot, rows, backbone_version in parts:
        mine = answer_part(snapshot, columns.take(rows), backbone_version, interval)
        probability[rows], versions[rows] = mine.probability, mine.version or 0
        for name, values in limits.items():
            if (found := getattr(mine, name)) is not None:
                values[rows] = found
        for name, missed in mine.unknown.items():
            unknown[name] = unknown.get(name, 0) + missed
        mismatched += mine.mismatched
    first = parts[0][0]
    one = all(snapshot is first for snapshot, _, _ in parts)
    return Answer(
        probability=probability,
        version=first.version if one else None,
        method=first.parameters.method if one else None,
        unknown=unknown,
        mismatched=mismatched,
        versions=None if one else versions,
        **limits,
    )


def correct_rows(
    snapshot: Snapshot, columns: Columns, backbone_version: str | None
) -> tuple[Floats, dict[str, Missed], ParameterSet, Found]:
    """Return the probabilities of rows, the unknown ids by effect, the parameters, and the looked-up ids."""
    parameters = parameters_for(snapshot, backbone_version, columns.logits)
    ids, missed = columns.ids, dict[str, Missed]()
    items = ids.get("item")
    if items is not None and (isinstance(items, bytes | bytearray) or not hasattr(items, "__len__")):
        raise InputError(
            f"item ids are {items!r:.60}, of type {type(items).__name__}; expected a text, an "
            "integer, or an array of them"
        )
    rows = parameters.found(ids, columns.logits, columns.time)
    for lookup, positions in zip(parameters.lookups, rows.positions, strict=True):
        name = lookup.name
        if positions.min(initial=0) < 0:
            unknown = np.flatnonzero(positions < 0)
            missed[name] = len(unknown), _some(ids[name], unknown) if name in ids else []
    probabilities = parameters.probabilities(rows)
    snapshot.counts.add(len(probabilities), missed)
    return probabilities, missed, parameters, rows


def correct_row(
    snapshot: Snapshot, row: Columns, backbone_version: str | None
) -> tuple[float, dict[str, Missed], ParameterSet]:
    """Return the same for one row of single values, without arrays."""
    parameters = parameters_for(snapshot, backbone_version, row.logits)
    found, unknown = parameters.one_found(row.ids, row.logits, row.time)
    missed: dict[str, Missed] = {
        name: (1, () if (one := row.ids.get(name)) is None else (one,)) for name in unknown
    }
    snapshot.counts.add(1, missed)
    return found, missed, parameters


def parameters_for(snapshot: Snapshot, asked: str | None, logits: Any) -> ParameterSet:
    """Return the parameters for rows of a backbone; a mismatch follows the deployment's rule."""
    parameters = snapshot.parameters
    fitted = parameters.provenance.backbone_version
    if asked is None or asked == fitted:
        return parameters
    if not isinstance(asked, str):
        raise InputError(f"backbone_version is {asked!r:.60}; expected a text")
    if fitted is None:
        return parameters  # the backbone of the fit is not recorded
    rows = len(logits) if hasattr(logits, "__len__") else 1
    snapshot.counts.mismatch(rows, asked, snapshot.rule)
    if snapshot.rule == "refuse":
        raise BackboneMismatch(mismatch_sentence(fitted, asked, "refuse"))
    return _FROZEN if snapshot.rule == "frozen" else parameters


def by_backbone(versions: Any, count: int) -> Iterator[tuple[str | None, NDArray[np.bool_]]]:
    """Yield each backbone with a mask of its rows; None for rows without one."""
    if versions is None or isinstance(versions, str):
        yield versions, np.ones(count, np.bool_)
        return
    named = np.array(versions, object)
    if len(named) != count:
        raise InputError(f"{len(named)} backbone versions for {count} rows; expected one for each")
    for version in dict.fromkeys(named):
        yield version, named == version


def _take(values: Any, rows: Positions) -> Any:
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values.take(as_arrow(rows))
    if isinstance(values, list | tuple):
        return [values[row] for row in rows.tolist()]
    return np.asarray(values)[rows]


def _some(ids: Any, rows: Positions) -> list[Any]:
    """Return the first ids at these rows as Python types, without missing ones."""
    found = []
    for row in rows[:EXAMPLES].tolist():
        one = getattr(ids, "iloc", ids)[row]
        convert = getattr(one, "as_py", None) or getattr(one, "item", None)
        value = one if convert is None else convert()
        found += [value] if isinstance(value, str | int) else []
    return found
