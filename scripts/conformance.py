"""Write the conformance suite of the parameter set format.  scripts/conformance.py [--out conformance]

``good/`` holds a set for each method and each shape that the format allows, ``bad/`` one for each reason to
refuse a set. ``manifest.json`` lists them all: rows with the probabilities that a reader must give (computed
here row by row, without the product's code), or the error.
"""

import argparse
import json
import math
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from slc_ops.base.digests import digest_file
from slc_ops.methods import METHODS, FitOptions, fit
from slc_ops.numerics.curves import Affine, AffineInTime, Histogram, Isotonic
from slc_ops.parameters.effects import Effect
from slc_ops.parameters.parameter_set import ParameterSet
from slc_ops.parameters.storage import signed
from slc_ops.rows.interactions import InteractionLog

ROOT = Path(__file__).resolve().parents[1]
COLUMNS = {"item": "item_id", "group": "group_id", "user": "user_id"}
ROWS = 40


def main() -> None:
    """Write the suite."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=ROOT / "conformance")
    write(parser.parse_args().out)


def write(out: Path) -> None:
    """Write all sets and the manifest, replacing old ones."""
    for part in ("good", "bad"):
        shutil.rmtree(out / part, ignore_errors=True)
    entries: list[dict[str, Any]] = []
    for name, parameters in good():
        parameters.write(out / "good" / name)
        entries.append({"directory": f"good/{name}", "rows": list(rows(out / "good" / name))})
    for name, base, damage in DAMAGES:
        target = out / "bad" / name
        shutil.copytree(out / "good" / base, target)
        entries.append({"directory": f"bad/{name}", "error": damage(target)})
    other = {"directory": "good/deployment", "deployment": "school", "error": "a set of another deployment"}
    text = json.dumps({"tolerance": 1e-9, "sets": [*entries, other]}, indent=1, ensure_ascii=False)
    (out / "manifest.json").write_text(text + "\n", encoding="utf-8")


# --- sets that a reader must accept -----------------------------------------------------------------------


def good() -> Iterator[tuple[str, ParameterSet]]:
    """A set of every method, then the shapes that no fit of this log has."""
    for method in METHODS:
        rows = mixed_log() if METHODS[method].forgets else log()
        effects = ("item", "slope", "group", "user")
        yield method, fit(method, rows, options=FitOptions(time_bins=4, threads=1, effects=effects))
    items = pa.table({"id": ["a", "b", "c"], "offset": [0.4, -0.7, 0.1]})
    yield (
        "cold-line",
        ParameterSet("slc_eb", Affine(1.1, -0.2), {"item": Effect(items, 0.5)}, cold=Affine(0.9, 0.1)),
    )
    yield "even-histogram", ParameterSet("histogram", Histogram(np.linspace(0.05, 0.95, 10)))
    yield "one-knot", ParameterSet("isotonic", Isotonic(np.array([0.4]), np.array([0.7])))
    yield "time-covariate", ParameterSet("platt_time", AffineInTime(0.8, 0.1, -0.5, 1.7e9, 86400.0))
    numbers = pa.table({"id": [-(2**63), -1, 0, 7, 2**63 - 1], "offset": [0.5, -0.5, 1.0, -1.0, 0.25]})
    yield "integers", ParameterSet("slc", Affine(1.0, 0.3), {"item": Effect(numbers, 1.0)})
    names = sorted(
        ["", " ", "A", "a", "a ", "e\u0301", "é", "17", "017", "ß", "項目", "🙂", "x" * 300], key=str.encode
    )
    texts = pa.table({"id": names, "offset": [0.1 * k - 0.6 for k in range(len(names))]})
    yield "texts", ParameterSet("slc", Affine(0.9, 0.0), {"item": Effect(texts, 1.0)})
    empty = pa.table({"id": pa.array([], pa.string()), "offset": pa.array([], pa.float64())})
    yield "no-items", ParameterSet("slc", Affine(0.9, 0.0), {"item": Effect(empty, 1.0)})
    slopes = items.append_column("slope", pa.array([0.2, 0.0, -0.3]))
    groups = pa.table({"id": [3, 17], "offset": [0.25, -0.5]})
    users = pa.table({"id": ["u1", "u2"], "offset": [1.0, -1.0]})
    effects = {"item": Effect(slopes, 0.5, 0.1), "group": Effect(groups, 0.3), "user": Effect(users, 0.2)}
    mixed = ParameterSet("slc_mix", Affine(1.1, -0.2), effects, logit_mean=0.3)
    yield "effects", mixed
    yield (
        "effects-and-cold-line",
        ParameterSet("slc_mix", Affine(1.1, -0.2), effects, logit_mean=0.3, cold=Affine(0.9, -0.1)),
    )
    cells = pa.table({"id": [3, 3, 17, 17], "time_bin": [0, 1, 0, 1], "offset": [0.1, 0.2, -0.3, 0.4]})
    binned = {"item": Effect(items), "group": Effect(cells, time_edges=np.array([0.0, 10.0, 20.0]))}
    yield (
        "binned-groups",
        ParameterSet("slc_mix", Isotonic(np.array([0.1, 0.6]), np.array([0.2, 0.9])), binned),
    )
    yield "deployment", ParameterSet("platt", Affine(0.9, 0.1)).with_provenance(deployment="films")


def log() -> InteractionLog:
    """A small log in which items, scores and times all matter."""
    rng = np.random.default_rng(5)
    item, logit, time = rng.integers(0, 6, 900), rng.normal(0.2, 1.2, 900), np.arange(900.0)
    truth = 1.3 * logit + np.linspace(-1.5, 1.5, 6)[item] + time / 900
    label = (rng.random(900) < 1 / (1 + np.exp(-truth))).astype(int)
    columns = {"item_id": [f"item-{k}" for k in item], "user_id": rng.integers(0, 60, 900)}
    return InteractionLog.from_table(
        pa.table({**columns, "event_time": time, "logit": logit.round(3), "label": label})
    )


def mixed_log() -> InteractionLog:
    """A log in which items, slopes, groups and users all matter."""
    rng = np.random.default_rng(6)
    item, user, logit = rng.integers(0, 300, 3000), rng.integers(0, 25, 3000), rng.normal(0.2, 1.2, 3000)
    effect = rng.normal(0, 1, (4, 300)) * [[0.4], [0.6], [1.0], [0.8]]
    truth = effect[0][item] + (1 + effect[1][item]) * logit + effect[2][item % 8] + effect[3][user]
    columns = {"item_id": [f"item-{k}" for k in item], "group_id": item % 8, "user_id": user}
    label = (rng.random(3000) < 1 / (1 + np.exp(-truth))).astype(int)
    return InteractionLog.from_table(
        pa.table({**columns, "event_time": np.arange(3000.0), "logit": logit.round(3), "label": label})
    )


# --- rows, by the formulas of the page only ---------------------------------------------------------------


def rows(directory: Path) -> Iterator[dict[str, Any]]:
    """Inputs and their expected probabilities."""
    params = json.loads((directory / "params.json").read_text(encoding="utf-8"))
    tables = {name: pq.read_table(directory / f"{name}.parquet").to_pylist() for name in params["effects"]}
    draw = random.Random(directory.name)
    edges = [edge for each in params["effects"].values() for edge in each["time_edges"] or []]
    in_time = params["link"]["kind"] == "affine_in_time"
    for number in range(ROWS):
        row: dict[str, Any] = {}
        for name, table in tables.items():
            known = [each["id"] for each in table] or ["none"]
            unknown = 4_000_000 if isinstance(known[0], int) else "never seen"
            row[COLUMNS[name]] = draw.choice([*known, *known, unknown, None])
        row["logit"] = 0.0 if number == 0 else round(draw.gauss(0, 3), 3)
        row["time"] = draw.choice([*edges, edges[0] - 1, edges[-1] + 1, None]) if edges else None
        if in_time and number:
            row["time"] = params["link"]["time_mean"] + draw.gauss(0, 2) * params["link"]["time_sd"]
        yield {**row, "probability": by_formula(params, tables, row)}


def by_formula(params: dict[str, Any], tables: dict[str, Any], row: dict[str, Any]) -> float | None:
    """The probability of a row; None if it must be refused."""
    link, logit, time = params["link"], row["logit"], row["time"]
    a, b0 = link.get("a", 1.0), link.get("b0", 0.0)
    total = 0.0
    for name in ("item", "group", "user"):
        if name not in tables:
            continue
        mine = [each for each in tables[name] if each["id"] == row[COLUMNS[name]]]
        edges = params["effects"][name]["time_edges"]
        if mine:
            own = mine[len(mine) - 1 if time is None or not edges else bin_of(time, edges)]
            total += own["offset"] + own.get("slope", 0.0) * (logit - params["logit_mean"])
        elif name == "item" and "cold_link" in params:
            a, b0 = params["cold_link"]["a"], params["cold_link"]["b0"]
    if link["kind"] == "affine":
        return sigmoid(a * logit + b0 + total)
    if link["kind"] == "affine_in_time":
        if time is None:
            return None
        return sigmoid(a * logit + link["c"] * (time - link["time_mean"]) / link["time_sd"] + b0 + total)
    q = sigmoid(logit + total)
    if link["kind"] == "histogram":
        return float(link["values"][bin_of(q, link["edges"])])
    x, y = link["x"], link["y"]
    q = min(max(q, x[0]), x[-1])
    for k in range(len(x) - 1):
        if q <= x[k + 1]:
            return float(y[k] + (y[k + 1] - y[k]) * (q - x[k]) / (x[k + 1] - x[k]))
    return float(y[-1])


def bin_of(value: float, edges: list[float]) -> int:
    """The right-closed bin; values outside are in the first or the last."""
    return next((k for k in range(len(edges) - 1) if value <= edges[k + 1]), len(edges) - 2)


def sigmoid(eta: float) -> float:
    """σ(η)."""
    return 1 / (1 + math.exp(-eta)) if eta > -700 else 0.0


# --- sets that a reader must refuse -----------------------------------------------------------------------

Damage = Callable[[Path], str]


def params_with(what: str, change: Callable[[dict[str, Any]], object], *, sign: bool = True) -> Damage:
    """Another ``params.json``, with a correct digest unless that is the damage."""

    def damage(directory: Path) -> str:
        path = directory / "params.json"
        values = json.loads(path.read_text(encoding="utf-8"))
        change(values)
        text = json.dumps(values, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
        path.write_text(signed(text) if sign else text, encoding="utf-8")
        return what

    return damage


def golden_with(what: str, change: Callable[[list[dict[str, Any]]], object]) -> Damage:
    """Other golden vectors with correct digests."""

    def damage(directory: Path) -> str:
        path = directory / "golden.json"
        golden = json.loads(path.read_text(encoding="utf-8"))
        change(golden["vectors"])
        path.write_text(json.dumps(golden, ensure_ascii=False) + "\n", encoding="utf-8")
        return params_with(what, lambda values: values.update(golden_digest=digest_file(path)))(directory)

    return damage


def table_with(what: str, change: Callable[[pa.Table], pa.Table], **stated: Any) -> Damage:
    """Another table of items, with correct digests and counts unless that is the damage."""

    def damage(directory: Path) -> str:
        path = directory / "item.parquet"
        table = change(pq.read_table(path))
        pq.write_table(table, path)
        entry = {"digest": digest_file(path), "bytes": path.stat().st_size, "rows": table.num_rows}
        entry |= {"columns": table.column_names} | stated
        return params_with(what, lambda values: values["effects"]["item"].update(entry))(directory)

    return damage


def file_with(what: str, name: str, change: Callable[[Path], object]) -> Damage:
    """A missing file, or one that contradicts its digest."""

    def damage(directory: Path) -> str:
        change(directory / name)
        return what

    return damage


def offsets(*values: float | None) -> Callable[[pa.Table], pa.Table]:
    """The same table with other offsets."""
    return lambda table: table.set_column(1, "offset", pa.array(values, pa.float64()))


def flip(path: Path) -> None:
    """One bit of the middle byte."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def close_on_the_left(vectors: list[dict[str, Any]]) -> None:
    """The vectors of a writer that closes histogram bins on the left: 0.5 is an edge of ten bins."""
    for vector in vectors:
        if vector["logit"] == 0.0:
            vector["probability"] += 0.1


DAMAGES: list[tuple[str, str, Damage]] = [
    (
        "schema-version-2",
        "slc",
        params_with("an unknown schema_version", lambda v: v.update(schema_version=2)),
    ),
    ("no-schema-version", "slc", params_with("no schema_version", lambda v: v.pop("schema_version"))),
    ("changed-params", "slc", params_with("params_digest", lambda v: v.update(method="ridge"), sign=False)),
    (
        "no-params-digest",
        "slc",
        params_with("no params_digest", lambda v: v.pop("params_digest"), sign=False),
    ),
    (
        "params-not-json",
        "slc",
        file_with("params.json is no JSON", "params.json", lambda p: p.write_text("{")),
    ),
    ("no-params", "slc", file_with("params.json is missing", "params.json", lambda p: p.unlink())),
    ("no-golden", "slc", file_with("golden.json is missing", "golden.json", lambda p: p.unlink())),
    ("no-items", "slc", file_with("item.parquet is missing", "item.parquet", lambda p: p.unlink())),
    ("changed-golden", "slc", file_with("golden_digest", "golden.json", flip)),
    ("changed-items", "slc", file_with("the digest of item.parquet", "item.parquet", flip)),
    (
        "golden-19",
        "slc",
        golden_with("fewer than 20 golden vectors", lambda v: v.__delitem__(slice(19, None))),
    ),
    (
        "golden-off",
        "slc",
        golden_with(
            "a golden vector that is off by 1e-8",
            lambda v: v[12].update(probability=v[12]["probability"] + 1e-8),
        ),
    ),
    (
        "golden-edge",
        "even-histogram",
        golden_with("golden vectors of bins closed on the left", close_on_the_left),
    ),
    (
        "golden-time",
        "platt_time",
        golden_with(
            "a golden vector that answers a row without a time", lambda v: v[-1].update(probability=0.5)
        ),
    ),
    ("id-twice", "cold-line", table_with("an id twice", lambda t: pa.concat_tables([t, t.slice(2)]))),
    ("ids-descend", "cold-line", table_with("ids that do not ascend", lambda t: t.take([2, 1, 0]))),
    (
        "null-id",
        "cold-line",
        table_with("a null id", lambda t: t.set_column(0, "id", pa.array(["a", "b", None]))),
    ),
    (
        "float-ids",
        "cold-line",
        table_with("ids that are floats", lambda t: t.set_column(0, "id", pa.array([1.0, 2.0, 3.0]))),
    ),
    ("nan-offset", "cold-line", table_with("an offset that is NaN", offsets(0.4, float("nan"), 0.1))),
    ("null-offset", "cold-line", table_with("an offset that is null", offsets(0.4, None, 0.1))),
    (
        "infinite-slope",
        "effects",
        table_with(
            "a slope that is infinite",
            lambda t: t.set_column(2, "slope", pa.array([0.2, float("inf"), -0.3])),
        ),
    ),
    ("no-offset", "cold-line", table_with("no column offset", lambda t: t.drop_columns(["offset"]))),
    ("row-count", "cold-line", table_with("another number of rows than stated", lambda t: t, rows=4)),
    (
        "column-names",
        "cold-line",
        table_with("other columns than stated", lambda t: t, columns=["id", "offset", "slope"]),
    ),
    ("byte-count", "cold-line", table_with("another number of bytes than stated", lambda t: t, bytes=7)),
    (
        "too-many-rows",
        "cold-line",
        table_with("more than 50 million rows stated", lambda t: t, rows=60_000_000),
    ),
    ("other-file", "cold-line", table_with("a file of another name", lambda t: t, file="../item.parquet")),
    ("bins-missing", "slc_t", table_with("an id without all time bins", lambda t: t.slice(1))),
    (
        "edges-descend",
        "slc_t",
        params_with("time_edges that do not ascend", lambda v: v["effects"]["item"]["time_edges"].reverse()),
    ),
    (
        "unknown-effect",
        "slc",
        params_with(
            "an effect of an unknown name", lambda v: v["effects"].update(colour=v["effects"]["item"])
        ),
    ),
    (
        "unknown-link",
        "platt",
        params_with("a link of an unknown kind", lambda v: v["link"].update(kind="spline")),
    ),
    ("link-field", "platt", params_with("a link that lacks a field", lambda v: v["link"].pop("b0"))),
    (
        "cold-isotonic",
        "cold-line",
        params_with(
            "a cold_link that is no line",
            lambda v: v.update(cold_link={"kind": "isotonic", "x": [0.0, 1.0], "y": [0.0, 1.0]}),
        ),
    ),
    ("no-effects", "slc", params_with("no effects", lambda v: v.pop("effects"))),
]


if __name__ == "__main__":
    main()
