"""Audit of served probabilities: ``served_probability`` and ``served_version`` of the log.

Each row is corrected again with its served version. The result is a table by version and day, with a likely
cause if served probabilities differ, and a comparison of the two versions that served most (the arms of a
canary) with an interval over users. It is stored beside the window's rows, without user ids.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slc_ops.base.buffers import as_numpy
from slc_ops.base.errors import SlcError
from slc_ops.base.files import write_json
from slc_ops.base.text import count, share
from slc_ops.numerics.kernels import Floats, sigmoid
from slc_ops.quality.result import Finding
from slc_ops.rows.columns import as_logits, as_times
from slc_ops.settings.environment import Installation
from slc_ops.settings.quality import Limit

if TYPE_CHECKING:
    from slc_ops.parameters.parameter_set import ParameterSet

FILE = "served.json"
OFF = 1e-6
"""Maximum difference between a served probability and its version's."""
CANDIDATES = 8
"""Number of earlier champions that a stale server may have served."""
SAMPLE = 2000
EXPLAINED = 0.95
"""Share of the sampled rows that a cause must explain."""
SetOf = Callable[[int], "ParameterSet | None"]
COLUMNS = ("event_time", "user_id", "item_id", "group_id", "label", "logit", "probability")


@dataclass
class Cell:
    """The rows of one version on one day, with a sample of those that are off."""

    rows: int = 0
    off: int = 0
    largest: float = 0.0
    sample: list[pa.Table] = field(default_factory=list)

    def add(self, rows: pa.Table, difference: Floats) -> None:
        off = np.flatnonzero(~(difference <= OFF))  # NaN is off, too
        self.rows, self.off = self.rows + len(difference), self.off + len(off)
        self.largest = max(self.largest, float(np.nanmax(difference, initial=0.0)))
        wanted = off[: SAMPLE - sum(map(len, self.sample))]
        if len(wanted):
            self.sample.append(rows.take(pa.array(wanted)))


def audit_served(
    installation: Installation, name: str, log: Path, directory: Path, limit: Limit
) -> tuple[dict[str, Any] | None, list[Finding]]:
    """Audit a window's rows; return the table, stored beside them, and the findings above the limits.

    The table is None if the log has no served probabilities.
    """
    import pyarrow.dataset as ds

    rows = ds.dataset(log, format="parquet")
    if "served_probability" not in rows.schema.names:
        return None, []
    from slc_ops.registry import Registry

    registry = Registry.open(installation, create=False)
    line = [change.to_version for change in registry.history(name)]
    losses = []

    @cache
    def set_of(version: int) -> "ParameterSet | None":
        """Return a version's parameter set, read once; None if the registry cannot return one."""
        with suppress(SlcError):
            return registry.parameters(registry.ledger.version(name, version))
        return None

    cells: dict[tuple[int, str], Cell] = {}
    for version, part in _served_parts(rows, line[-1] if line else None):
        parameters = set_of(version)
        served = as_numpy(part["served_probability"])
        off = np.full(len(served), np.nan) if parameters is None else abs(served - _again(parameters, part))
        days = as_numpy(part["event_time"].cast("int64")) // 86_400_000_000
        for day in np.unique(days).tolist():
            mine = np.flatnonzero(days == day)
            cell = cells.setdefault((version, str(np.datetime64(day, "D"))), Cell())
            cell.add(part.take(pa.array(mine)), off[mine])
        losses.append(_losses(version, part, served))
    found = _table(cells, set_of, line)
    found["arms"] = _arms(cells, losses)
    write_json(directory / FILE, found)
    return found, list(_findings(found, limit))


def _served_parts(rows: Any, champion: int | None) -> Iterator[tuple[int, pa.Table]]:
    """Yield the rows with a served probability by version; rows that name none are the champion's."""
    wanted = [*COLUMNS, "served_probability", "served_version"]
    for batch in rows.to_batches(columns=[each for each in wanted if each in rows.schema.names]):
        table = pa.table(batch)
        table = table.filter(pc.is_finite(pc.fill_null(table["served_probability"], float("nan"))))
        if "served_version" not in table.column_names:
            table = table.append_column("served_version", pa.nulls(table.num_rows, pa.int64()))
        named = pc.fill_null(pc.cast(table["served_version"], pa.int64()), champion or 0)
        for version in sorted(pc.unique(named).to_pylist()):
            yield version, table.filter(pc.equal(named, version))


def _logits(rows: pa.Table) -> Floats:
    score = "logit" if "logit" in rows.column_names else "probability"
    return as_logits(rows[score].combine_chunks(), score, 0).astype(np.float64)


def _again(parameters: "ParameterSet", rows: pa.Table, *, unknown: bool = False) -> Floats:
    """Return the set's probabilities; ``unknown`` treats all items as unknown."""
    ids = {
        name: rows[column].combine_chunks() if column in rows.column_names else None
        for name, column in (("item", "item_id"), ("group", "group_id"), ("user", "user_id"))
    }
    for name, given in ids.items():
        effect = parameters.effects.get(name)
        if effect is not None and given is not None:
            ids[name] = pc.cast(given, effect.table.schema.field("id").type, safe=False)
    time = as_times(rows["event_time"].combine_chunks(), 0) if parameters.needs_time else None
    item = None if unknown else ids["item"]
    return parameters.correct(item, _logits(rows), time, groups=ids["group"], users=ids["user"])


# --- results ----------------------------------------------------------------------------------------------


def _table(cells: dict[tuple[int, str], Cell], set_of: SetOf, line: list[int | None]) -> dict[str, Any]:
    served: list[dict[str, Any]] = []
    before = [each for each in dict.fromkeys(reversed(line)) if each is not None][:CANDIDATES]
    for (version, day), cell in sorted(cells.items(), key=lambda each: (each[0][1], each[0][0])):
        cause = _cause(version, pa.concat_tables(cell.sample), set_of, before) if cell.off else None
        served.append(
            {
                "version": version, "day": day, "rows": cell.rows, "off": cell.off, "largest": cell.largest,
                "cause": cause, "stale": _stale(version, day, cells, line),
            }
        )  # fmt: skip
    rows, off = sum(each["rows"] for each in served), sum(each["off"] for each in served)
    return {
        "tolerance": OFF,
        "rows": rows,
        "off": off,
        "share": off / rows if rows else 0.0,
        "served": served,
    }


def _cause(version: int, rows: pa.Table, set_of: SetOf, before: list[int]) -> str:
    """Return the first cause that explains nearly all of the sampled rows."""
    parameters = set_of(version)
    if parameters is None:
        return f"the registry has no set of version {version}"
    served, again = as_numpy(rows["served_probability"]), _again(parameters, rows)

    def fits(answer: Floats, tolerance: float = OFF) -> bool:
        return bool(np.mean(abs(served - answer) <= tolerance) >= EXPLAINED)

    for digits in range(1, 7):
        if fits(np.round(again, digits), 1e-9):
            return f"rounded to {digits} decimal{'s' if digits > 1 else ''}"
    for other in before:
        older = set_of(other) if other != version else None
        if older is not None and fits(_again(older, rows)):
            return f"the answers of version {other}: a stale server, or a wrong version in the log"
    if "item" in parameters.effects and fits(_again(parameters, rows, unknown=True)):
        return "the answers for unknown items: the request had another format of item ids"
    if fits(sigmoid(_logits(rows))):
        return "the frozen model's own answers"
    return "no known cause"


def _stale(version: int, day: str, cells: dict[tuple[int, str], Cell], line: list[int | None]) -> bool:
    """Return True if an older version serves again after a newer one, without a rollback."""
    days = sorted({each for _, each in cells if each < day})
    if not days or (version, days[-1]) in cells:
        return False
    newer = max(each for each, when in cells if when == days[-1])
    recent = line[::-1]
    went_back = version in recent and newer in recent and recent.index(version) < recent.index(newer)
    return version < newer and not went_back


def _losses(version: int, rows: pa.Table, served: Floats) -> pa.Table:
    """Return rows and NLL of each user."""
    p = np.clip(served, 1e-6, 1 - 1e-6)
    label = as_numpy(rows["label"]).astype(np.float64)
    loss = -(label * np.log(p) + (1 - label) * np.log1p(-p))
    table = pa.table({"user": rows["user_id"].cast("string"), "loss": loss, "version": [version] * len(loss)})
    return table.group_by(["version", "user"]).aggregate([("loss", "sum"), ("loss", "count")])


def _arms(cells: dict[tuple[int, str], Cell], losses: list[pa.Table]) -> dict[str, Any] | None:
    """Return the NLL difference of the two versions that served most, with a 95 % interval over users."""
    rows: Counter[int] = Counter()
    for (version, _), cell in cells.items():
        rows[version] += cell.rows
    if len(rows) < 2:
        return None
    sums = [("loss_sum", "sum"), ("loss_count", "sum")]
    users = pa.concat_tables(losses).group_by(["version", "user"]).aggregate(sums)
    found = []
    for version, number in rows.most_common(2):
        mine = users.filter(pc.equal(users["version"], version))
        total, size = (as_numpy(mine[each]).astype(np.float64) for each in ("loss_sum_sum", "loss_count_sum"))
        mean = total.sum() / number
        error = np.sqrt(((total - mean * size) ** 2).sum()) / number
        found.append({"version": version, "rows": number, "users": len(mine), "nll": mean, "error": error})
    one, two = found
    difference = two["nll"] - one["nll"]
    reach = 1.96 * float(np.hypot(one["error"], two["error"]))
    interval = {"estimate": difference, "low": difference - reach, "high": difference + reach}
    return {"arms": found, "nll_difference": interval}


def _findings(found: dict[str, Any], limit: Limit) -> Iterator[Finding]:
    worst = max(found["served"], key=lambda each: each["off"], default=None)
    above = [
        kind
        for kind in ("stop", "warn")
        if (bound := getattr(limit, kind)) is not None and found["share"] > bound
    ]
    if worst is not None and above:
        rows = f"{count(worst['off'])} of {count(worst['rows'])} rows"
        yield Finding(
            code="served_off",
            severity="critical" if above[0] == "stop" else "warning",
            sentence="served probabilities are not those of their version: most of them version "
            f"{worst['version']} on {worst['day']}, {rows}, {worst['cause']}",
            expectation=f"served_probability within {OFF:g} of the registry's",
            observed=share(found["share"], 2),
            expected=f"expected at most {share(getattr(limit, above[0]), 2)}",
        )
    for each in (each for each in found["served"] if each["stale"]):
        yield Finding(
            code="served_stale",
            severity="warning",
            sentence=f"a stale server: version {each['version']} again on {each['day']}, after a newer one",
            expectation="served_version by day",
            observed=f"{count(each['rows'])} rows",
            expected="expected the version of the day before, or a newer one",
        )
