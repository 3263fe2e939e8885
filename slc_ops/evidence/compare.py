"""The ladder side by side: fit every method on one log, score it on a later one.

Sums that several methods need are computed once
(:class:`~slc_ops.methods.fitting.calibration.Calibration`), and two methods are worked on side by side.
What a parameter set is worth, the caller says: ``evaluate`` is a function of the set, the test log and a
number of threads that returns an object with ``as_dict``; where that brings users' sums
(:class:`~slc_ops.evidence.paired.EvaluatorWithUsers`), differences from Platt get intervals.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

from slc_ops.base.errors import SettingsError
from slc_ops.base.methods import METHODS, Method, method_named
from slc_ops.evidence.guards import Finding, findings, refuse
from slc_ops.evidence.paired import EvaluatorWithUsers, against
from slc_ops.evidence.side_by_side import SIDE_BY_SIDE, shared_options, side_by_side
from slc_ops.evidence.uncertainty import PairedDifference, UserSums
from slc_ops.methods import FitOptions, fit_prepared
from slc_ops.methods.fitting.calibration import MAX_CELLS, Calibration
from slc_ops.parameters.parameter_set import ParameterSet
from slc_ops.rows.interactions import InteractionLog
from slc_ops.rows.item_index import ItemIndex
from slc_ops.rows.passes import Totals
from slc_ops.rows.rows import Rows

REFERENCE = "platt"
Evaluate = Callable[[ParameterSet, InteractionLog, int | None], Any]


@dataclass(frozen=True)
class Scored:
    """One method: its parameters, what they are worth on the test log, and what the fit took."""

    parameters: ParameterSet
    metrics: dict[str, Any]
    seconds_fit: float
    users: UserSums | None = None

    def as_dict(self) -> dict[str, Any]:
        """The JSON form (contract, section 3)."""
        return {
            **self.metrics,
            "seconds_fit": self.seconds_fit,
            "link": self.parameters.affine(),
            "warnings": list(self.parameters.warnings),
        }


@dataclass(frozen=True)
class Comparison:
    """All methods on one pair of logs."""

    n_calibration: int
    n_test: int
    n_items: int
    cold_start_share: float
    methods: dict[str, Scored]
    warnings: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    differences: dict[str, PairedDifference] = field(default_factory=dict)
    """Each method minus Platt on the same rows."""
    clusters: str = "rows"
    """What the intervals resample: "users", or "rows" where the test log names no users."""

    def as_dict(self) -> dict[str, Any]:
        """The JSON form (contract, section 3)."""
        methods = {name: scored.as_dict() for name, scored in self.methods.items()}
        for name, found in self.differences.items():
            methods[name] |= {"against_platt": found.as_dict()}
        return {
            "n_calibration": self.n_calibration,
            "n_test": self.n_test,
            "n_items": self.n_items,
            "cold_start_share": self.cold_start_share,
            "methods": methods,
            "differences": {"against": REFERENCE, "clusters": self.clusters} if self.differences else None,
            "warnings": list(self.warnings),
            "findings": [each.as_dict() for each in self.findings],
        }


def compare(
    calibration: InteractionLog,
    test: InteractionLog,
    evaluate: Evaluate,
    *,
    methods: Sequence[str] | None = None,
    history: InteractionLog | None = None,
    options: FitOptions | None = None,
    strict: bool = False,
) -> Comparison:
    """Fit and score ``methods`` (default: the whole ladder, without what the logs have no time for).

    A pair of logs that is not fair (:mod:`slc_ops.evidence.guards`) is said among the warnings; with
    ``strict`` it is refused with an :class:`~slc_ops.base.errors.InputError`.
    """
    options = options or FitOptions()
    chosen, warnings = _chosen(methods, calibration, test, options.time_bins)
    workers = options.workers
    options = shared_options(options)
    prepared = Calibration(calibration, history, options)
    share = cold_start_share(prepared, test)
    found = findings(calibration, test, share)
    if strict:
        refuse(found)
    warnings = (*(each.message for each in found), *warnings)

    def fitted_and_scored(method: str) -> Scored:
        begun = perf_counter()
        parameters = fit_prepared(method, prepared)
        seconds = perf_counter() - begun
        metrics = evaluate(parameters, test, options.workers)
        # A copy knows nothing of the look-up tables that scoring has built: they are as large as the items.
        return Scored(replace(parameters), metrics.as_dict(), seconds, getattr(metrics, "users", None))

    with_users = [REFERENCE] if isinstance(evaluate, EvaluatorWithUsers) else []  # what differences are from
    scored = side_by_side(list(dict.fromkeys([*chosen, *with_users])), fitted_and_scored, workers)
    sums = {name: each.users for name, each in scored.items() if each.users is not None}
    differences = against(sums, REFERENCE)
    return Comparison(
        n_calibration=calibration.n_rows,
        n_test=test.n_rows,
        n_items=prepared.n_items,
        cold_start_share=share,
        methods={name: scored[name] for name in chosen},
        warnings=warnings,
        findings=found,
        differences={name: each for name, each in differences.items() if name in chosen},
        clusters="users" if test.has("user_id") else "rows",
    )


def cold_start_share(calibration: Calibration, test: InteractionLog) -> float:
    """The share of test rows whose item has no calibration row that counts."""
    index = ItemIndex(calibration.log.items)
    counted = np.append(calibration.item_sums.n[index.order] > 0, False)
    known = counted[index.positions(test.items)]
    size = len(test.items)
    rows = test.add_up(partial(_rows_by_code, size), n_keys=size).values
    return float(rows[~known].sum() / test.n_rows)


def _rows_by_code(size: int, rows: Rows) -> Totals:
    return Totals(np.bincount(rows.codes, minlength=size).astype(np.float64))


def _chosen(
    methods: Sequence[str] | None, calibration: InteractionLog, test: InteractionLog, time_bins: int
) -> tuple[list[str], tuple[str, ...]]:
    if methods is not None:
        if not methods:
            raise SettingsError(f"no method given; the ladder has {', '.join(METHODS)}")
        return list(dict.fromkeys(method_named(name).name for name in methods)), ()
    if not (calibration.has("event_time") and test.has("event_time")):
        return _without("no event_time", lambda method: method.needs_time)
    if (cells := len(calibration.items) * time_bins) > MAX_CELLS // SIDE_BY_SIDE:
        reason = f"{cells:,} cells of items and time bins are more than {MAX_CELLS // SIDE_BY_SIDE:,}"
        return _without(reason, lambda method: method.in_cells)
    return list(METHODS), ()


def _without(reason: str, left_out: Callable[[Method], bool]) -> tuple[list[str], tuple[str, ...]]:
    """The ladder without some methods, and a warning that says why."""
    out = [name for name, method in METHODS.items() if left_out(method)]
    return [name for name in METHODS if name not in out], (f"{reason}: {', '.join(out)} are left out",)
