"""The paper's analyses on any pair of files: each is a table of plain rows.

* ``ladder``: every method on the pair (Tables 2, 3 and the classic calibrators);
* ``density``: what SLC gains over ``rescal_iso`` and over Platt, by observations per item (Table 5);
* ``calibration_fraction`` and ``prior_variance``: the two sweeps, the latter also with a constant backbone;
* ``link``: raw, offset-Platt and isotonic links on static offsets, raw and offset-Platt on tracked ones;
* ``ridge``: the converged estimate against the single step;
* ``detectability``: Proposition 2 on the calibration rows;
* ``regime_1pl`` and ``regime_2pl``: the synthetic regime map.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from slc_ops.evidence.compare import compare
from slc_ops.evidence.detectability import detectability
from slc_ops.evidence.evaluate import Metering
from slc_ops.evidence.metrics import evaluate
from slc_ops.evidence.slices import density_slices
from slc_ops.evidence.uncertainty import Clusters, Interval, difference, user_sums
from slc_ops.methods import FitOptions, fit_prepared
from slc_ops.numerics.calibration import Calibration
from slc_ops.numerics.curves import Affine
from slc_ops.paper import sweeps
from slc_ops.paper.regime import regime_map
from slc_ops.parameters.parameter_set import ParameterSet
from slc_ops.rows.interactions import InteractionLog

Rows = list[dict[str, Any]]
Tell = Callable[[str], None]
HEADLINE = ("auc", "nll", "brier", "ece", "accuracy")


def analyse(
    calibration: InteractionLog,
    test: InteractionLog,
    *,
    options: FitOptions | None = None,
    regime: bool = True,
    tell: Tell = lambda text: None,
) -> dict[str, Rows]:
    """All tables. What needs a time is left out where the files have none."""
    options = options or FitOptions()
    timed = calibration.has("event_time") and test.has("event_time")
    tell("the ladder")
    tables = {"ladder": ladder(calibration, test, options)}
    prepared = Calibration(calibration, None, options)
    fitted = {
        name: fit_prepared(name, prepared) for name in ("platt", "rescal_iso", "slc", "slc_iso", "ridge")
    }
    if timed:
        fitted["slc_t"] = fit_prepared("slc_t", prepared)
    tell("gain by density")
    tables["density"] = density(calibration, test, fitted)
    tell("the sweeps")
    tables["calibration_fraction"] = trimmed(
        sweeps.calibration_fraction_sweep(calibration, test, Metering(), options=options)
    )
    tables["prior_variance"] = prior_variance(calibration, test, options)
    tell("links and ridge")
    tables["link"] = links(test, fitted)
    tables["ridge"] = ridge(test, fitted)
    if timed:
        tell("detectability")
        tables["detectability"] = [
            {
                k: v
                for k, v in detectability(calibration, time_bins=options.time_bins).as_dict().items()
                if k != "power"
            }
        ]
    if regime:
        for model in ("1pl", "2pl"):
            tables[f"regime_{model}"] = regime_map(model, tell=tell)
    return tables


def ladder(calibration: InteractionLog, test: InteractionLog, options: FitOptions) -> Rows:
    """Every method that the files allow, on the pair."""
    found = compare(calibration, test, Metering(), options=options)
    return [
        {
            "method": name,
            **{metric: scored.metrics[metric] for metric in HEADLINE},
            "seconds_fit": scored.seconds_fit,
        }
        for name, scored in found.methods.items()
    ]


def density(calibration: InteractionLog, test: InteractionLog, fitted: Mapping[str, ParameterSet]) -> Rows:
    """SLC against ``rescal_iso`` and Platt within each tercile of observations per item, with intervals."""
    weight = test.weight if test.weighted else None
    clusters = Clusters.of(test.user_codes, test.n_rows)
    probability = {name: fitted[name].apply(test) for name in ("platt", "rescal_iso", "slc")}
    rows = []
    for part in density_slices(calibration, test):
        chosen = np.flatnonzero(part.rows)
        if not chosen.size:
            continue
        mass = None if weight is None else weight[chosen]
        label = test.label[chosen]
        sums = {
            name: user_sums(label, p[chosen], clusters.take(chosen), mass) for name, p in probability.items()
        }
        ece = {name: evaluate(label, p[chosen], mass).ece or 0.0 for name, p in probability.items()}
        for reference in ("rescal_iso", "platt"):
            found = difference(sums["slc"], sums[reference])
            rows.append(
                {
                    "slice": part.label,
                    "against": reference,
                    "rows": int(chosen.size),
                    **spread("delta_auc", found.auc),
                    **spread("delta_nll", found.nll),
                    "delta_ece": ece["slc"] - ece[reference],
                }
            )
    return rows


def prior_variance(calibration: InteractionLog, test: InteractionLog, options: FitOptions) -> Rows:
    """The sweep with the files' backbone, and with the paper's constant one."""
    own = sweeps.prior_variance_sweep(calibration, test, Metering(), options=options)
    constant = sweeps.mean_label_logit(calibration)
    same = sweeps.prior_variance_sweep(
        sweeps.with_constant_backbone(calibration, constant),
        sweeps.with_constant_backbone(test, constant),
        Metering(),
        options=options,
    )
    return [{"backbone": "own", **row} for row in trimmed(own)] + [
        {"backbone": "constant", **row} for row in trimmed(same)
    ]


def links(test: InteractionLog, fitted: Mapping[str, ParameterSet]) -> Rows:
    """The same offsets under different links; the raw link is σ(η₀ + b)."""
    variants = {"platt (no items)": fitted["platt"]}
    if "slc_t" in fitted:
        variants["tracked, raw"] = replace(fitted["slc_t"], link=Affine())
        variants["tracked, offset-Platt"] = fitted["slc_t"]
    variants["static, raw"] = replace(fitted["slc"], link=Affine())
    variants["static, offset-Platt (slc)"] = fitted["slc"]
    variants["static, isotonic (slc_iso)"] = fitted["slc_iso"]
    weight = test.weight if test.weighted else None
    found = {name: evaluate(test.label, each.apply(test), weight) for name, each in variants.items()}
    return [{"link": name, "auc": m.auc, "nll": m.nll, "ece": m.ece} for name, m in found.items()]


def ridge(test: InteractionLog, fitted: Mapping[str, ParameterSet]) -> Rows:
    """The converged ridge estimate minus the single step, with intervals."""
    weight = test.weight if test.weighted else None
    clusters = Clusters.of(test.user_codes, test.n_rows)
    sums = {
        name: user_sums(test.label, fitted[name].apply(test), clusters, weight) for name in ("ridge", "slc")
    }
    found = difference(sums["ridge"], sums["slc"])
    return [
        {
            "ridge_auc": sums["ridge"].auc,
            "slc_auc": sums["slc"].auc,
            **spread("delta_auc", found.auc),
            "ridge_nll": sums["ridge"].nll,
            "slc_nll": sums["slc"].nll,
            **spread("delta_nll", found.nll),
        }
    ]


def spread(name: str, found: Interval) -> dict[str, float | None]:
    """An estimate and its interval as three columns."""
    return {name: found.estimate, f"{name}_low": found.low, f"{name}_high": found.high}


def trimmed(rows: Rows) -> Rows:
    """The figures of a sweep, without what is the same in every row."""
    left_out = ("n", "weight", "positive_rate", "reasons", "warnings", "link")
    return [{k: v for k, v in row.items() if k not in left_out} for row in rows]
