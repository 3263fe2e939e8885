"""The paper's analyses on any pair of files; each result is a table of plain rows.

* ``ladder``: every method on the pair (Tables 2, 3 and the classic calibrators);
* ``over_time``: AUC of the backbone, Platt, ``rescal`` and SLC in ten slices of the test rows (Figure 1);
* ``density``: SLC minus ``rescal_iso`` and minus Platt, by observations per item (Table 5, Figure 2);
* ``calibration_fraction`` and ``prior_variance``: the two sweeps, the latter also with a constant backbone;
* ``link``: four links on static offsets (raw, offset-Platt, isotonic, scaled), two on tracked ones;
* ``ridge``: the converged estimate against the single step;
* ``detectability``: Proposition 2 on the calibration rows;
* ``regime_1pl`` and ``regime_2pl``: the synthetic regime map.

Several pairs (backbones, seeds) give the same tables with means and standard deviations (``means``).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from slc_ops.evidence.auc import auc
from slc_ops.evidence.compare import compare
from slc_ops.evidence.detectability import detectability
from slc_ops.evidence.evaluation import evaluate
from slc_ops.evidence.metrics import METRICS
from slc_ops.evidence.slices import by_density
from slc_ops.evidence.uncertainty import Interval, difference
from slc_ops.methods import FitOptions, fit_prepared
from slc_ops.methods.fitting.calibration import Calibration
from slc_ops.numerics.curves import Affine
from slc_ops.paper import sweeps
from slc_ops.paper.regime import Model, regime_map
from slc_ops.parameters.parameter_set import ParameterSet
from slc_ops.rows.interactions import Floats, InteractionLog

Rows = list[dict[str, Any]]
TIME_SLICES = 10
SETTINGS = ("value", "q", "alpha", "reference_drift")  # chosen, not measured
DESCRIPTIVE = ("observations", "reason", "temporal_tracking", "from", "to")  # differ between pairs
MODELS: tuple[Model, ...] = ("1pl", "2pl")


def analyse(
    calibration: InteractionLog,
    test: InteractionLog,
    *,
    history: InteractionLog | None = None,
    options: FitOptions | None = None,
) -> dict[str, Rows]:
    """Compute all tables of one pair; tables that need times are omitted for files without times.

    ``history`` (earlier rows, of which only the time is read) places the time bins of ``slc_t`` and ``naive``
    over train and calibration, as in the paper; without it they cover the calibration rows only.
    """
    options = options or FitOptions()
    timed = calibration.has("event_time") and test.has("event_time")
    tables = {"ladder": ladder(calibration, test, options, history)}
    prepared = Calibration(calibration, history, options)
    names = ("base", "platt", "rescal", "rescal_iso", "slc", "slc_iso", "ridge")
    fitted = {name: fit_prepared(name, prepared) for name in names}
    if timed:
        fitted["slc_t"] = fit_prepared("slc_t", prepared)
        tables["over_time"] = over_time(test, fitted)
    tables["density"] = density(calibration, test, fitted)
    tables["calibration_fraction"] = trimmed(
        sweeps.calibration_fraction_sweep(calibration, test, options=options)
    )
    tables["prior_variance"] = prior_variance(calibration, test, options)
    tables["link"] = links(calibration, test, fitted)
    tables["ridge"] = ridge(test, fitted)
    if timed:
        found = detectability(calibration, time_bins=options.time_bins).as_dict()
        tables["detectability"] = [{name: each for name, each in found.items() if name != "power"}]
    return tables


def regime() -> dict[str, Rows]:
    """Compute the two regime maps, which need no files."""
    return {f"regime_{model}": regime_map(model) for model in MODELS}


def means(pairs: Sequence[Mapping[str, Rows]]) -> dict[str, Rows]:
    """Combine the tables of several pairs: rows of the same kind become a mean and a standard deviation.

    A row's kind is its texts and settings (method, slice, prior variance, …). ``x_sd`` follows ``x``.
    Intervals of single pairs are omitted, and a mean ignores pairs without the figure.

    >>> means([{"ladder": [{"method": "slc", "auc": 0.7}]}, {"ladder": [{"method": "slc", "auc": 0.8}]}])
    {'ladder': [{'method': 'slc', 'pairs': 2, 'auc': 0.75, 'auc_sd': 0.07071067811865482}]}
    """
    shared = [name for name in pairs[0] if all(name in tables for tables in pairs)]
    return {name: _mean_rows([row for tables in pairs for row in tables[name]]) for name in shared}


def by_kind(rows: Rows, ignored: Sequence[str] = ()) -> dict[tuple[tuple[str, Any], ...], Rows]:
    """Group rows by their texts and settings, without the ``ignored`` ones."""
    groups: dict[tuple[tuple[str, Any], ...], Rows] = {}
    for row in rows:
        kind = (each for each in row.items() if isinstance(each[1], str) or each[0] in SETTINGS)
        groups.setdefault(tuple(each for each in kind if each[0] not in ignored), []).append(row)
    return groups


def _mean_rows(rows: Rows) -> Rows:
    found = []
    for kind, members in by_kind(rows, DESCRIPTIVE).items():
        mean: dict[str, Any] = {**dict(kind), "pairs": len(members)}
        left_out = {name for name, _ in kind} | set(DESCRIPTIVE)
        for name in members[0]:
            if name in left_out or name.endswith(("_low", "_high")):
                continue
            values = [row[name] for row in members if row.get(name) is not None]
            mean[name] = float(np.mean(values)) if values else None
            mean[f"{name}_sd"] = float(np.std(values, ddof=1)) if len(values) > 1 else None
        found.append(mean)
    return found


def ladder(
    calibration: InteractionLog, test: InteractionLog, options: FitOptions, history: InteractionLog | None
) -> Rows:
    """Score every method that the files allow."""
    found = compare(calibration, test, history=history, options=options)
    return [
        {
            "method": name,
            **{metric: scored.metrics[metric] for metric in METRICS},
            "seconds_fit": scored.seconds_fit,
        }
        for name, scored in found.methods.items()
    ]


def over_time(test: InteractionLog, fitted: Mapping[str, ParameterSet]) -> Rows:
    """Compute the AUC in ten slices of equally many test rows by event time; equal times stay together."""
    assert test.time is not None  # noqa: S101 - the caller checks this
    weight = test.weight if test.weighted else None
    edges = np.unique(np.quantile(test.time, np.linspace(0, 1, TIME_SLICES + 1), method="inverted_cdf"))
    number = np.clip(np.searchsorted(edges, test.time, side="left") - 1, 0, max(len(edges) - 2, 0))
    probability = {name: fitted[name].apply(test) for name in ("base", "platt", "rescal", "slc")}
    rows = []
    for k in range(max(len(edges) - 1, 1)):
        chosen = np.flatnonzero(number == k)
        label, mass = test.label[chosen], None if weight is None else weight[chosen]
        areas = {f"{name}_auc": auc(label, p[chosen], mass).value for name, p in probability.items()}
        first, last = float(test.time[chosen].min()), float(test.time[chosen].max())
        rows.append({"slice": f"{k + 1}", "from": first, "to": last, "rows": int(chosen.size), **areas})
    return rows


def density(calibration: InteractionLog, test: InteractionLog, fitted: Mapping[str, ParameterSet]) -> Rows:
    """Compare SLC with ``rescal_iso`` and Platt in each tercile of observations per item, with intervals."""
    slicing = (by_density(calibration, test),)
    found = {name: evaluate(fitted[name], test, slicing).parts for name in ("platt", "rescal_iso", "slc")}
    rows = []
    for k, ours in enumerate(found["slc"]):
        for reference in ("rescal_iso", "platt"):
            theirs = found[reference][k]
            if ours.users is not None and theirs.users is not None:  # the slice has rows
                gain = difference(ours.users, theirs.users)
                rows.append(
                    {
                        "slice": ours.name,
                        "observations": ours.label,
                        "against": reference,
                        "rows": ours.metrics.n,
                        **spread("delta_auc", gain.auc),
                        **spread("delta_nll", gain.nll),
                        "delta_ece": (ours.metrics["ece"] or 0.0) - (theirs.metrics["ece"] or 0.0),
                    }
                )
    return rows


def prior_variance(calibration: InteractionLog, test: InteractionLog, options: FitOptions) -> Rows:
    """Run the sweep with the files' backbone and with the paper's constant one."""
    logit = sweeps.mean_label_logit(calibration)
    constant = [sweeps.with_constant_backbone(log, logit) for log in (calibration, test)]
    return [
        {"backbone": name, **row}
        for name, pair in {"own": (calibration, test), "constant": constant}.items()
        for row in trimmed(sweeps.prior_variance_sweep(*pair, options=options))
    ]


def links(calibration: InteractionLog, test: InteractionLog, fitted: Mapping[str, ParameterSet]) -> Rows:
    """Score the same offsets under different links; raw is σ(η₀ + b), scaled is σ(a(η₀ + b) + b₀)."""
    variants = {"platt (no items)": fitted["platt"]}
    if "slc_t" in fitted:
        variants["tracked, raw"] = replace(fitted["slc_t"], link=Affine())
        variants["tracked, offset-Platt"] = fitted["slc_t"]
    raw = variants["static, raw"] = replace(fitted["slc"], link=Affine())
    variants["static, offset-Platt (slc)"] = fitted["slc"]
    variants["static, isotonic (slc_iso)"] = fitted["slc_iso"]
    found = {name: evaluate(each, test).metrics for name, each in variants.items()}
    shifted, later = (sweeps.with_logits(log, _logit(raw.apply(log))) for log in (calibration, test))
    scaled = fit_prepared("platt", Calibration(shifted))
    found["static, scaled a(η₀ + b) + b₀"] = evaluate(scaled, later).metrics
    return [{"link": name, "auc": m.auc, "nll": m.nll, "ece": m["ece"]} for name, m in found.items()]


def _logit(p: Floats) -> Floats:
    inside = np.clip(p, 1e-15, 1 - 1e-15)
    logit: Floats = np.log(inside) - np.log1p(-inside)
    return logit


def ridge(test: InteractionLog, fitted: Mapping[str, ParameterSet]) -> Rows:
    """Compare the converged ridge estimate with the single step, with intervals."""
    sums = {name: evaluate(fitted[name], test).users for name in ("ridge", "slc")}
    found = difference(sums["ridge"], sums["slc"])
    return [
        {
            "ridge_auc": sums["ridge"].auc,
            "slc_auc": sums["slc"].auc,
            **spread("delta_auc", found.auc),
            "ridge_nll": sums["ridge"].mean("nll"),
            "slc_nll": sums["slc"].mean("nll"),
            **spread("delta_nll", found.nll),
        }
    ]


def spread(name: str, found: Interval) -> dict[str, float | None]:
    """Return an estimate and its interval as three columns."""
    return {name: found.estimate, f"{name}_low": found.low, f"{name}_high": found.high}


def trimmed(rows: Rows) -> Rows:
    """Return the rows of a sweep without columns that are constant or not numeric."""
    left_out = ("n", "weight", "positive_rate", "reasons", "warnings", "link")
    return [{k: v for k, v in row.items() if k not in left_out} for row in rows]
