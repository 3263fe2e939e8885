"""The paper's two sweeps: over the prior variance and over the amount of calibration data."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from slc_ops.base.buffers import as_arrow
from slc_ops.base.errors import OneClassError, SettingsError
from slc_ops.evidence.evaluation import evaluate
from slc_ops.evidence.metrics import paired_metrics
from slc_ops.methods import FitOptions, fit_prepared
from slc_ops.methods.fitting.calibration import Calibration
from slc_ops.rows.interactions import Floats, InteractionLog

PRIOR_VARIANCES = (0.01, 0.1, 0.5, 1.0, 5.0, 10.0, 100.0)
FRACTIONS = (0.1, 0.2, 0.5, 1.0)
AGAINST = {
    "prior-variance": "base",
    "calibration-fraction": "platt",
}  # reference of a sweep's differences


def prior_variance_sweep(
    calibration: InteractionLog,
    test: InteractionLog,
    *,
    values: Sequence[float] = PRIOR_VARIANCES,
    method: str = "slc",
    options: FitOptions | None = None,
) -> list[dict[str, Any]]:
    """Fit ``method`` with each prior variance σ_b² and score it on ``test``.

    ``delta_auc`` and ``delta_nll`` of a row are the method minus ``base``, the frozen backbone.
    """
    options = options or FitOptions()
    against = AGAINST["prior-variance"]
    base = _score(against, Calibration(calibration, None, options), test)
    rows = []
    for value in values:
        ready = Calibration(calibration, None, replace(options, prior_var=value))
        rows.append({"value": value, **_against(_score(method, ready, test), base, against)})
    return rows


def calibration_fraction_sweep(
    calibration: InteractionLog,
    test: InteractionLog,
    *,
    values: Sequence[float] = FRACTIONS,
    method: str = "slc",
    options: FitOptions | None = None,
) -> list[dict[str, Any]]:
    """Fit ``method`` and ``platt`` on the most recent share of the calibration rows.

    A fraction of 0.2 keeps the newest 20 % by event time (by row order without times), the window of a
    shorter calibration period. ``delta_auc`` and ``delta_nll`` of a row are the method minus ``platt`` fitted
    on the same share.
    """
    rows = []
    for value in values:
        kept = newest(calibration, value)
        ready = Calibration(kept, None, options)
        against = AGAINST["calibration-fraction"]
        row = _against(_score(method, ready, test), _score(against, ready, test), against)
        rows.append({"value": value, "n_calibration": kept.n_rows, **row})
    return rows


def newest(log: InteractionLog, fraction: float) -> InteractionLog:
    """Return the newest share of a log's rows."""
    if not 0 < fraction <= 1:
        raise SettingsError(f"calibration fraction {fraction} lies outside (0, 1]")
    if fraction == 1:
        return log
    count = max(1, round(fraction * log.n_rows))
    time = np.arange(log.n_rows) if log.time is None else log.time
    rows = np.sort(np.argsort(time, kind="stable")[-count:])
    return InteractionLog.from_table(log.as_table().take(as_arrow(rows)))


def with_constant_backbone(log: InteractionLog, logit: float) -> InteractionLog:
    """Return the same rows under a backbone with the constant output ``logit``, as in the paper's sweep."""
    return with_logits(log, np.full(log.n_rows, logit))


def with_logits(log: InteractionLog, logit: Floats) -> InteractionLog:
    """Return the same rows with other logits."""
    table = log.as_table()
    own = table.column_names.index("logit")
    return InteractionLog.from_table(table.set_column(own, "logit", as_arrow(logit)))


def mean_label_logit(log: InteractionLog) -> float:
    """Return the logit of the mean label; raise `OneClassError` if all labels are equal."""
    rate = float(np.average(log.label, weights=log.weight))
    if not 0 < rate < 1:
        raise OneClassError(f"all labels are {rate:g}; their mean has no finite logit")
    return float(np.log(rate) - np.log1p(-rate))


def _score(method: str, ready: Calibration, test: InteractionLog) -> dict[str, Any]:
    parameters = fit_prepared(method, ready)
    metrics: dict[str, Any] = evaluate(parameters, test, threads=ready.options.threads).metrics.as_dict()
    return {**metrics, "link": parameters.affine(), "warnings": list(parameters.warnings)}


def _against(row: dict[str, Any], other: dict[str, Any], name: str) -> dict[str, Any]:
    for metric in (each.name for each in paired_metrics()):
        known = row[metric] is not None and other[metric] is not None
        row[f"{name}_{metric}"] = other[metric]
        row[f"delta_{metric}"] = row[metric] - other[metric] if known else None
    return row
