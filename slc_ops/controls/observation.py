"""Results of an arm's refresh: AUCs from its backtest, gains over Platt with clustered intervals."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slc_ops.base.errors import InputError
from slc_ops.base.methods import score_only
from slc_ops.evidence.decision import is_ahead
from slc_ops.evidence.uncertainty import Interval, paired_difference
from slc_ops.refresh.evidence import read_backtest
from slc_ops.refresh.plan import Plan
from slc_ops.rows.interactions import InteractionLog

SUBJECTS = ("slc", "slc_eb")
"""The methods whose gain a control tests: the paper's and ours."""

Clusters = Callable[[InteractionLog], NDArray[Any]]


@dataclass(frozen=True)
class Observation:
    """AUC and NLL per method on the test window, and the subjects' gains.

    ``ahead`` lists the item methods that the decision rule finds ahead of Platt on the test window; a
    champion must be ahead over two windows.
    """

    auc: dict[str, float]
    nll: dict[str, float]
    gains: dict[str, Interval]
    ahead: list[str]


def observe(plan: Plan, clusters: Clusters) -> Observation:
    """Read the backtest and compare the subjects with Platt on the test window, by cluster."""
    from slc_ops.methods import fit

    found = read_backtest(plan)
    ahead = [name for name in found.methods if not score_only(name) and is_ahead(found.entries, name)]
    metrics = {name: score.metrics for name, score in found.newest.items() if score.metrics is not None}
    calibration = InteractionLog.read(plan.windows[-2].log)
    test = InteractionLog.read(plan.newest.log)
    groups = clusters(test)
    platt = fit("platt", calibration).apply(test)
    gains = {
        method: paired_difference(test.label, fit(method, calibration).apply(test), platt, groups).auc
        for method in SUBJECTS
    }
    return Observation(
        auc={name: m.auc for name, m in metrics.items() if m.auc is not None},
        nll={name: m.nll for name, m in metrics.items() if m.nll is not None},
        gains=gains,
        ahead=ahead,
    )


def by_user(log: InteractionLog) -> NDArray[Any]:
    """Return one cluster per user."""
    if log.user_codes is None:
        raise InputError(f"{log.describe()} has no user_id")
    return log.user_codes


def by_day(log: InteractionLog) -> NDArray[Any]:
    """Return one cluster per day: flights of a day share weather, a stronger dependence than the aircraft."""
    if log.time is None:
        raise InputError(f"{log.describe()} has no event_time")
    return np.floor(log.time / 86_400).astype(np.int64)
