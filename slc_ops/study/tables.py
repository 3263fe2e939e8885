"""The runs of a study as the paper's tables: means over the seeds of each backbone, then over backbones.

± is the standard deviation over seeds; for several backbones it is the mean of theirs, as in the paper ("avg
seed std"). A backbone with one seed has none, nor has a mean with such a backbone.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from slc_ops.paper import analyses
from slc_ops.paper.analyses import Rows
from slc_ops.study import published
from slc_ops.study.registry import BACKBONES
from slc_ops.study.run import Run

METHODS = (
    "base", "platt", "platt_time", "rescal", "rescal_iso", "naive", "slc", "slc_t", "slc_iso",
    "ridge", "slc_eb",
)  # fmt: skip
"""The rows of the paper's tables, then the other methods."""
MEAN = "mean"
PLAIN = {
    "ridge": ("ridge_auc", "slc_auc", "delta_auc", "ridge_nll", "slc_nll", "delta_nll"),
    "detectability": ("obs_per_item_median", "time_bins", "w_max", "delta_min", "delta_obs_median"),
    "over_time": ("slice", "rows", "base_auc", "platt_auc", "rescal_auc", "slc_auc"),
}
"""Tables with the layout of ``slc-ops paper``, and their columns."""


def study_tables(runs: Sequence[Run], dataset: str | None) -> dict[str, Rows]:
    """Return every table of the page, by name."""
    each = of_backbones(runs)
    averaged = over_backbones(each)
    tables = {metric: by_method(each, averaged, metric, dataset) for metric in ("auc", "nll")}
    tables["gain"] = gains(each, dataset)
    tables["density"] = by_density(each, averaged, runs, dataset)
    tables["link"] = links(averaged, dataset)
    tables["calibration_fraction"] = fractions(averaged, dataset)
    for name, columns in PLAIN.items():
        if name in averaged:
            tables[name] = [{column: row[column] for column in columns} for row in averaged[name]]
    tables["training"] = training(runs)
    return tables


def of_backbones(runs: Sequence[Run]) -> dict[str, dict[str, Rows]]:
    """Return each backbone's tables with means over its seeds."""
    names = dict.fromkeys(run.backbone for run in runs)
    return {name: analyses.means([run.tables for run in runs if run.backbone == name]) for name in names}


def over_backbones(tables: Mapping[str, Mapping[str, Rows]]) -> dict[str, Rows]:
    """Average the tables over backbones; the mean of ``x_sd`` follows the mean of ``x``.

    >>> one = {"ladder": [{"method": "slc", "pairs": 2, "auc": 0.7, "auc_sd": 0.01}]}
    >>> two = {"ladder": [{"method": "slc", "pairs": 2, "auc": 0.8, "auc_sd": 0.03}]}
    >>> over_backbones({"dkt": one, "akt": two})
    {'ladder': [{'method': 'slc', 'backbones': 2, 'auc': 0.75, 'auc_sd': 0.02}]}
    """
    first = next(iter(tables.values()))
    return {
        name: _average([row for each in tables.values() for row in each[name]])
        for name in first
        if all(name in each for each in tables.values())
    }


def _average(rows: Rows) -> Rows:
    found = []
    for kind, members in analyses.by_kind(rows).items():
        mean: dict[str, Any] = {**dict(kind), "backbones": len(members)}
        for name in members[0]:
            if name not in mean and name != "pairs":
                values = [row[name] for row in members if row.get(name) is not None]
                known = len(values) == len(members) if name.endswith("_sd") else bool(values)
                mean[name] = float(np.mean(values)) if known else None
        found.append(mean)
    return found


def by_method(
    each: Mapping[str, Mapping[str, Rows]], averaged: Mapping[str, Rows], metric: str, dataset: str | None
) -> Rows:
    """Build Tables 2 and 3 and the per-backbone tables: a row per method, a column per backbone."""
    columns = {**{name: tables["ladder"] for name, tables in each.items()}, MEAN: averaged["ladder"]}
    rows = []
    for method in METHODS:
        row: dict[str, Any] = {"method": method}
        for name, ladder in columns.items():
            found = next((line for line in ladder if line["method"] == method), None)
            if found is not None:
                row |= {name: found[metric], f"{name}_sd": found[f"{metric}_sd"]}
                whole = name != MEAN or set(each) == set(published.BACKBONES)  # the paper's mean: all five
                row[f"{name}_paper"] = published.figure(dataset, name, method, metric) if whole else None
        rows.append(row)
    return [row for row in rows if len(row) > 1]


def gains(each: Mapping[str, Mapping[str, Rows]], dataset: str | None) -> Rows:
    """Return the AUC gain of slc over Platt by backbone, with a flag for item parameters."""
    rows = []
    for name, tables in each.items():
        area = {line["method"]: line["auc"] for line in tables["ladder"]}
        slc, platt = (published.figure(dataset, name, method, "auc") for method in ("slc", "platt"))
        rows.append(
            {
                "backbone": name,
                "sees items": "yes" if BACKBONES[name].sees_items else "no",
                "platt_auc": area["platt"],
                "slc_auc": area["slc"],
                "gain": area["slc"] - area["platt"],
                "gain_paper": None if slc is None or platt is None else slc - platt,
            }
        )
    return rows


def by_density(
    each: Mapping[str, Mapping[str, Rows]],
    averaged: Mapping[str, Rows],
    runs: Sequence[Run],
    dataset: str | None,
) -> Rows:
    """Build Table 5 by backbone: AUC of slc minus rescal_iso in terciles of items by calibration rows."""
    label = {line["slice"]: line["observations"] for run in runs for line in run.tables["density"]}
    columns = {**{name: tables["density"] for name, tables in each.items()}, MEAN: averaged["density"]}
    rows = []
    for part, observations in label.items():
        row: dict[str, Any] = {"slice": observations}
        for name, lines in columns.items():
            for line in lines:
                if (line["slice"], line["against"]) == (part, "rescal_iso"):
                    row |= {name: line["delta_auc"], f"{name}_sd": line["delta_auc_sd"]}
        row[f"{MEAN}_paper"] = published.DENSITY.get(dataset, {}).get(part)
        rows.append(row)
    return rows


def fractions(averaged: Mapping[str, Rows], dataset: str | None) -> Rows:
    """Return the sweep over the share of calibration rows, averaged over backbones."""
    return [
        {
            "share": f"{row['value']:.0%}",
            "platt_auc": row["platt_auc"],
            "slc_auc": row["auc"],
            "gain": row["delta_auc"],
            "gain_sd": row["delta_auc_sd"],
            "gain_paper": published.FRACTIONS.get(dataset, {}).get(row["value"]),
            "delta_nll": row["delta_nll"],
        }
        for row in averaged["calibration_fraction"]
    ]


def links(averaged: Mapping[str, Rows], dataset: str | None) -> Rows:
    """Return the link ablation, averaged over backbones, with the paper's figures."""
    rows = []
    for line in averaged["link"]:
        theirs = published.LINKS.get(dataset, {}).get(line["link"], (None, None, None))
        row: dict[str, Any] = {"link": line["link"]}
        for metric, figure in zip(("auc", "nll", "ece"), theirs, strict=True):
            row |= {metric: line[metric], f"{metric}_sd": line[f"{metric}_sd"], f"{metric}_paper": figure}
        rows.append(row)
    return rows


def training(runs: Sequence[Run]) -> Rows:
    """Return the training report of each run as a row."""
    rows = []
    for run in runs:
        told, chosen = run.training, run.training["epochs"][run.training["chosen"] - 1]
        rows.append(
            {
                "run": f"{run.backbone}, seed {run.seed}",
                "width": told["backbone"]["width"],
                "parameters": told["parameters"],
                "epochs in all": len(told["epochs"]),
                "chosen": told["chosen"],
                "loss": chosen["loss"],
                "AUC where the epoch is chosen": chosen["auc"],
                "CPU minutes": round(told["cpu_minutes"], 1),
                "peak MB": round(told["peak_mb"]),
            }
        )
    return rows
