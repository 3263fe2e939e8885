"""Export a parameter set as SQL: tables of the effects, and a view that adds ``p_corrected`` to a table.

The view uses joins, not a branch per item. Ids are compared as text, byte for byte, for every column type and
collation. A row with invalid input (no finite logit, no time where the link needs one) gets NULL.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from slc_ops.base.buffers import as_arrow, as_numpy
from slc_ops.base.errors import InputError, SettingsError
from slc_ops.numerics.curves import Affine, AffineInTime, Histogram, Isotonic
from slc_ops.numerics.kernels import Floats, sigmoid
from slc_ops.parameters.effects import COLUMNS, Effect
from slc_ops.parameters.parameter_set import ParameterSet

LARGEST = "1.7976931348623157e308"
_ROWS_PER_INSERT = 500
_BEYOND = 1e300
"""Beyond every time or score that is compared with a border."""
_SLOTTED, _SLOTS = 40.0, 64
"""Links by ranges join on slots of η + E: 64 per unit, up to ±40, beyond which σ is 0 or 1."""
_IDENTIFIER = re.compile(r'(?:\w+|"[^"]+"|`[^`]+`)(?:\.(?:\w+|"[^"]+"|`[^`]+`))*')


@dataclass(frozen=True)
class Dialect:
    """The differences between databases."""

    text: str
    real: str
    exact: str
    """An id as text for byte-wise comparison."""
    number: str
    """A column's number in double precision."""
    view: str
    load: str = ""
    """Statement that fills a table from a Parquet file; without it rows are inserted."""
    epoch: str = ""
    """Seconds since 1970 of a timestamp."""
    greatest: str = "GREATEST"
    least: str = "LEAST"
    backslash: bool = False
    """True if a backslash in a quoted text is an escape character."""
    key: str = ""
    """The primary key clause of a table."""


_COMMENT_ON = "CREATE OR REPLACE VIEW {view} AS\n{query};\nCOMMENT ON VIEW {view} IS {comment};\n"

DIALECTS = {
    "duckdb": Dialect(
        text="VARCHAR", real="DOUBLE", exact="CAST({} AS VARCHAR) COLLATE C", number="CAST({} AS DOUBLE)",
        view=_COMMENT_ON, epoch="epoch_us({}) / 1e6",
        load="CREATE OR REPLACE TABLE {name} AS SELECT * FROM read_parquet({file});\n",
    ),
    "postgres": Dialect(
        text='TEXT COLLATE "C"', real="DOUBLE PRECISION", exact='CAST({} AS TEXT) COLLATE "C"',
        number="CAST({} AS DOUBLE PRECISION)", view=f"BEGIN;\n{_COMMENT_ON}COMMIT;\n",
        epoch="EXTRACT(EPOCH FROM {})", key=", PRIMARY KEY ({})",
    ),
    "sqlite": Dialect(
        text="TEXT", real="REAL", exact="CAST({} AS TEXT) COLLATE BINARY",
        # A cast would turn a text into 0; without it, a text is outside every range.
        number="{}", greatest="MAX", least="MIN", key=", PRIMARY KEY ({})",
        view="BEGIN;\nDROP VIEW IF EXISTS {view};\nCREATE VIEW {view} AS\n-- {plain}\n{query};\nCOMMIT;\n",
    ),
    "snowflake": Dialect(
        text="VARCHAR", real="DOUBLE", exact="COLLATE(CAST({} AS VARCHAR), '')", number="CAST({} AS DOUBLE)",
        view="CREATE OR REPLACE VIEW {view} COPY GRANTS COMMENT = {comment} AS\n{query};\n",
        epoch="DATE_PART(EPOCH_MICROSECOND, {}) / 1e6", backslash=True,
        load="CREATE OR REPLACE TABLE {name} ({columns});\n"
        "PUT file://{path} @%{name} AUTO_COMPRESS = FALSE OVERWRITE = TRUE;\n"
        "COPY INTO {name} FROM @%{name} FILE_FORMAT = (TYPE = PARQUET) "
        "MATCH_BY_COLUMN_NAME = CASE_INSENSITIVE;\n",
    ),
    "bigquery": Dialect(
        text="STRING", real="FLOAT64", exact="COLLATE(CAST({} AS STRING), '')", number="CAST({} AS FLOAT64)",
        view="CREATE OR REPLACE VIEW {view} OPTIONS (description = {comment}) AS\n{query};\n",
        epoch="UNIX_MICROS({}) / 1e6", backslash=True,
        load="-- first: gcloud storage cp {path} gs://YOUR-BUCKET/\n"
        "LOAD DATA OVERWRITE {name} ({columns}) FROM FILES "
        "(format = 'PARQUET', uris = ['gs://YOUR-BUCKET/{path}']);\n",
    ),
    "spark": Dialect(
        text="STRING", real="DOUBLE", exact="CAST({} AS STRING)", number="CAST({} AS DOUBLE)",
        view="CREATE OR REPLACE VIEW {view} COMMENT {comment} AS\n{query};\n",
        epoch="unix_micros({}) / 1e6", backslash=True,
        load="DROP TABLE IF EXISTS {name};\n"
        "CREATE TABLE {name} USING parquet AS SELECT * FROM parquet.`{path}`;\n",
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Names:
    """Names in the SQL: the rows' table and columns, our tables and view."""

    table: str = "log"
    view: str = "slc_corrected"
    prefix: str = "slc"
    columns: Mapping[str, str] | None = None
    timestamps: bool = True
    """True if ``event_time`` is a timestamp; otherwise it is the number of the fit."""

    def column(self, name: str) -> str:
        return f"t.{(self.columns or {}).get(name, name)}"

    def check(self) -> None:
        for given in (self.table, self.view, self.prefix, *(self.columns or {}).values()):
            if not _IDENTIFIER.fullmatch(given):
                raise SettingsError(
                    f"{given!r:.60} is not an SQL name; expected an identifier, quoted if necessary"
                )


def write_sql(
    parameters: ParameterSet, directory: Path, dialect: str, names: Names, comment: str
) -> list[str]:
    """Write ``effects.sql`` (with Parquet files if the database reads them) and ``score.sql``."""
    ours = DIALECTS[dialect]
    names.check()
    if parameters.needs_time and names.timestamps and not ours.epoch:
        raise SettingsError(f"{dialect} has no timestamps; give event_time as a number (--times number)")
    tables = {name: _by_text(parameters.effects[name]) for name in COLUMNS if name in parameters.effects}
    if isinstance(parameters.link, Isotonic | Histogram):
        tables["link"] = _pieces(parameters.link)
    written = ["effects.sql", "score.sql"]
    with (directory / "effects.sql").open("w", encoding="utf-8") as out:
        out.write(f"-- {_plain(comment)}\n")
        for name, table in tables.items():
            full = f"{names.prefix}_{name}"
            if ours.load:
                pq.write_table(table, directory / f"{full}.parquet", compression="zstd")
                written.append(f"{full}.parquet")
                columns = ", ".join(_columns(ours, table))
                path = f"{full}.parquet"
                out.write(ours.load.format(name=full, columns=columns, path=path, file=_text(path, ours)))
            else:
                out.writelines(_inserts(ours, full, table))
    query = _query(parameters, ours, names)
    score = ours.view.format(
        view=names.view, query=query, comment=_text(comment, ours), plain=_plain(comment)
    )
    (directory / "score.sql").write_text(score, encoding="utf-8")
    return written


# --- tables -----------------------------------------------------------------------------------------------


def _by_text(effect: Effect) -> pa.Table:
    """Return the effect by its ids as text; time bins have limits (``time_from`` excluded)."""
    columns = {"id": effect.table.column("id").cast(pa.string()), "added": effect.table.column("offset")}
    if "slope" in effect.table.column_names:
        columns["slope"] = effect.table.column("slope")
    if effect.time_edges is not None:
        inner = effect.time_edges[1:-1]
        bins = as_numpy(effect.table.column("time_bin"))
        columns["time_from"] = as_arrow(np.append(-2 * _BEYOND, inner)[bins])
        columns["time_to"] = as_arrow(np.append(inner, 2 * _BEYOND)[bins])
    return pa.table(columns)


def _pieces(link: Isotonic | Histogram) -> pa.Table:
    """Return the link by ranges of η + E: p = ``base`` + ``rise``·(σ(η + E) − ``q_from``).

    The ranges apply to the sum, not to its σ, so no exponential decides the side of a border. The first range
    is that of invalid rows, whose p is NULL. A range appears once in each ``slot`` that it touches, so
    databases can join by the slot and compare within it.
    """
    if isinstance(link, Histogram):
        borders = np.linspace(0.0, 1.0, len(link.values) + 1)[1:-1]
        start, base, rise = np.zeros(len(link.values)), link.values, np.zeros(len(link.values))
    else:
        borders, keep = link.x, np.diff(link.x) > 0
        start, base = np.append(link.x[0], link.x), np.append(link.y[0], link.y)
        rise = np.zeros(len(base))
        rise[1:-1][keep] = np.diff(link.y)[keep] / np.diff(link.x)[keep]
    ends = np.concatenate([[-2 * _BEYOND, -_BEYOND], _largest_below(borders), [_BEYOND]])
    pieces = pa.table(
        {
            "eta_from": as_arrow(ends[:-1]),
            "eta_to": as_arrow(ends[1:]),
            "q_from": as_arrow(np.append(0.0, start)),
            "base": pa.concat_arrays([pa.nulls(1, pa.float64()), as_arrow(base)]),
            "rise": as_arrow(np.append(0.0, rise)),
        }
    )
    slots = np.floor(np.clip(ends, -_SLOTTED, _SLOTTED) * _SLOTS).astype(np.int64)
    counts = np.where(np.diff(ends) > 0, np.diff(slots) + 1, 0)
    rows = np.repeat(np.arange(len(counts)), counts)
    within = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    return pieces.take(as_arrow(rows)).append_column("slot", as_arrow(slots[rows] + within))


def _largest_below(borders: Floats) -> Floats:
    """Return the largest z with σ(z) ≤ border, by bisection."""
    low, high = np.full(len(borders), -800.0), np.full(len(borders), 800.0)
    for _ in range(120):
        middle = (low + high) / 2
        below = sigmoid(middle) <= borders
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return low


def _columns(dialect: Dialect, table: pa.Table) -> list[str]:
    types = {pa.string(): dialect.text, pa.int64(): "INTEGER", pa.float64(): dialect.real}
    return [f"{field.name} {types[field.type]}" for field in table.schema]


def _inserts(dialect: Dialect, name: str, table: pa.Table) -> Iterator[str]:
    """Insert the rows in one transaction: a reader sees all new rows or all old ones."""
    keys = [each for each in ("id", "time_from", "slot", "eta_from") if each in table.column_names]
    key = dialect.key.format(", ".join(keys))
    yield f"BEGIN;\nCREATE TABLE IF NOT EXISTS {name} ({', '.join(_columns(dialect, table))}{key});\n"
    yield f"DELETE FROM {name};\n"  # noqa: S608  # names are checked
    for batch in table.to_batches(_ROWS_PER_INSERT):
        rows = zip(*(batch.column(k).to_pylist() for k in range(batch.num_columns)), strict=True)
        values = ",\n".join(f"({', '.join(_literal(each, dialect) for each in row)})" for row in rows)
        yield f"INSERT INTO {name} VALUES\n{values};\n"
    yield "COMMIT;\n"


def _literal(value: Any, dialect: Dialect) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, int):
        return str(value)
    return _text(value, dialect) if isinstance(value, str) else _number(value)


def _number(value: float) -> str:
    """Return the number with an exponent: without one, databases read a decimal of few digits."""
    text = repr(float(value))
    return text if "e" in text else f"{text}e0"


def _text(value: str, dialect: Dialect) -> str:
    if "\0" in value:
        raise InputError(
            f"the id {value!r:.60} holds a zero byte, which databases do not accept; remove the item"
        )
    if dialect.backslash:
        value = value.replace("\\", "\\\\").replace("\n", "\\n").replace("'", "\\'")
        return f"'{value}'"
    return "'" + value.replace("'", "''") + "'"


def _plain(comment: str) -> str:
    return " ".join(comment.split())


# --- the view ---------------------------------------------------------------------------------------------


def _query(parameters: ParameterSet, dialect: Dialect, names: Names) -> str:
    link, cold = parameters.link, parameters.cold
    logit = dialect.number.format(names.column("logit"))
    time = names.column("event_time")
    time = dialect.number.format(dialect.epoch.format(time) if names.timestamps else time)
    answered = f"{logit} BETWEEN -{LARGEST} AND {LARGEST}"
    eta = _within(logit, "1e150", dialect)  # beyond it, a product could fail the whole query
    a, b0 = (link.a, link.b0) if isinstance(link, Affine | AffineInTime) else (1.0, 0.0)
    line = f"{_number(a)} * {eta} + {_number(b0)}"
    if isinstance(link, AffineInTime):
        answered += f"\n    AND {time} BETWEEN -{LARGEST} AND {LARGEST}"
        line += f" + {_number(link.c)} * (({time} - {_number(link.time_mean)}) / {_number(link.time_sd)})"
    joins, sums = [], []
    for name in (each for each in COLUMNS if each in parameters.effects):
        one, effect = name[0], parameters.effects[name]
        # With a key the column has our collation, and a cast would prevent use of its index.
        ours = f"{one}.id" if dialect.key else dialect.exact.format(f"{one}.id")
        on = f"{ours} = {dialect.exact.format(names.column(COLUMNS[name]))}"
        if effect.time_edges is not None:
            far = _number(_BEYOND)
            when = (
                f"CASE WHEN {time} BETWEEN -{far} AND {far} THEN {time} WHEN {time} < 0 THEN -{far} "
                f"ELSE {far} END"
            )
            on += f"\n  AND {one}.time_from < {when}\n  AND {when} <= {one}.time_to"
        joins.append(f"\nLEFT JOIN {names.prefix}_{name} AS {one} ON {on}")
        sums.append(f"COALESCE({one}.added, 0e0)")
        if "slope" in effect.table.column_names:
            sums.append(f"COALESCE({one}.slope, 0e0) * ({eta} - {_number(parameters.logit_mean)})")
    if cold is not None:
        unknown = f"{_number(cold.a)} * {eta} + {_number(cold.b0)}"
        line = f"CASE WHEN i.id IS NULL THEN {unknown} ELSE {line} END"
    total = "\n    + ".join([line, *sums])
    if isinstance(link, Isotonic | Histogram):
        found = f"CASE WHEN {answered} THEN {total} ELSE {_number(-1.5 * _BEYOND)} END"
        slot = f"CAST(FLOOR({_SLOTS} * {_within(found, _number(_SLOTTED), dialect)}) AS INTEGER)"
        joins.append(
            f"\nINNER JOIN {names.prefix}_link AS l ON l.slot = {slot}\n  AND l.eta_from < {found}"
            f"\n  AND {found} <= l.eta_to"
        )
        p = f"l.base + l.rise * ({_sigma(total, dialect)} - l.q_from)"
    else:
        p = f"CASE WHEN {answered} THEN {_sigma(total, dialect)} END"
    return f"SELECT t.*,\n  {p} AS p_corrected\nFROM {names.table} AS t{''.join(joins)}"


def _sigma(eta: str, dialect: Dialect) -> str:
    """Return σ without overflow, which fails the whole query in some databases."""
    return f"1e0 / (1e0 + EXP(-{_within(eta, '700e0', dialect)}))"


def _within(value: str, limit: str, dialect: Dialect) -> str:
    return f"{dialect.greatest}(-{limit}, {dialect.least}({limit}, {value}))"
