"""Compare methods: fit each one on one log and score it on a later one.

Sums that several methods need are computed once
(:class:`~slc_ops.methods.fitting.calibration.Calibration`), and two methods run in parallel. Differences
from Platt on the same rows get intervals from the users' sums; the intervals by group (``group_id``) are
simultaneous.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.util import find_spec
from time import perf_counter
from typing import Any, TypeVar

import numpy as np

from slc_ops.base.errors import SettingsError
from slc_ops.base.ids import IdIndex
from slc_ops.base.methods import METHODS, Method, method_named
from slc_ops.base.text import count
from slc_ops.evidence.evaluation import Evaluation, SliceMetrics, evaluate
from slc_ops.evidence.guards import Finding, findings, refuse
from slc_ops.evidence.metrics import paired_metrics
from slc_ops.evidence.slices import by_group
from slc_ops.evidence.uncertainty import Interval, PairedDifference, UserSums, differences
from slc_ops.evidence.within import ranking_in_words
from slc_ops.methods import FitOptions, fit_prepared
from slc_ops.methods.fitting.calibration import MAX_CELLS, Calibration
from slc_ops.parameters.parameter_set import ParameterSet
from slc_ops.rows.interactions import InteractionLog
from slc_ops.rows.passes import Totals
from slc_ops.rows.rows import Rows

REFERENCE = "platt"
NO_SCIPY = "intervals need more packages: pip install 'slc-ops[report]'"
SIDE_BY_SIDE = 2
"""Methods that run in parallel: parts of a fit are single-threaded (sorting, item tables)."""

T = TypeVar("T")


def shared_options(options: FitOptions) -> FitOptions:
    """Return the options for parallel methods: with at most two workers, each method uses one thread."""
    return replace(options, threads=1) if options.workers <= SIDE_BY_SIDE else options


def side_by_side(
    methods: Sequence[str], work: Callable[[str], T], workers: int = SIDE_BY_SIDE
) -> dict[str, T]:
    """Run ``work`` for every method in at most two threads; the first error cancels all pending work.

    >>> side_by_side(["platt", "slc"], len)
    {'platt': 5, 'slc': 3}
    """
    with ThreadPoolExecutor(min(SIDE_BY_SIDE, workers)) as pool:
        # The last methods of the ladder take longest and start first. The context names the step in logs.
        running = {method: pool.submit(copy_context().run, work, method) for method in reversed(methods)}
        try:
            return {method: running[method].result() for method in methods}
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


@dataclass(frozen=True)
class Scored:
    """One method's parameters, their evaluation on the test log, and the seconds of the fit."""

    parameters: ParameterSet
    found: Evaluation
    seconds_fit: float

    @property
    def metrics(self) -> dict[str, Any]:
        """The metrics on all rows."""
        return self.found.metrics.as_dict()

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form (contract, section 3)."""
        return {
            **self.metrics,
            **{f"auc_within_{name}": value for name, value in self.found.within.items()},
            "seconds_fit": self.seconds_fit,
            "link": self.parameters.affine(),
            "warnings": list(self.parameters.warnings),
        }


@dataclass(frozen=True)
class Comparison:
    """The results of all methods on one pair of logs."""

    n_calibration: int
    n_test: int
    n_items: int
    cold_start_share: float
    methods: dict[str, Scored]
    warnings: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    differences: dict[str, PairedDifference] = field(default_factory=dict)
    """Each method minus Platt on the same rows."""
    by_group: dict[str, dict[str, PairedDifference]] = field(default_factory=dict)
    """By method and group: the method minus Platt on the group's rows; simultaneous over groups."""
    clusters: str = "rows"
    """The resampled unit: "users", or "rows" if the test log has no users."""

    @property
    def ranking(self) -> str | None:
        """A sentence that names the methods with better ranking within users and items, or None."""
        return ranking_in_words({name: each.found.within for name, each in self.methods.items()})

    @property
    def groups(self) -> dict[str, dict[str, SliceMetrics]]:
        """Metrics on the group's rows by group (largest first) and method."""
        found: dict[str, dict[str, SliceMetrics]] = {}
        for name, each in self.methods.items():
            for part in each.found.parts:
                found.setdefault(part.name, {})[name] = part
        return found

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form (contract, section 3)."""
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
            "groups": {group: self._group(group, parts) for group, parts in self.groups.items()} or None,
            "ranking": self.ranking,
            "warnings": list(self.warnings),
            "findings": [each.as_dict() for each in self.findings],
        }

    def group_table(self) -> tuple[str, list[str], list[list[str]]] | None:
        """Return title, columns and rows of a table by group for the method with the lowest NLL, or None."""
        if not self.by_group:
            return None
        name = min(self.by_group, key=lambda each: self.methods[each].found.metrics.nll or 0.0)
        rows = [
            [group, count(each.rows), *(each[metric.name].text(metric.signed) for metric in paired_metrics())]
            for group, each in self.by_group[name].items()
        ]
        title = f"{name} minus {REFERENCE} by group, with simultaneous 95 % intervals"
        return title, ["group", "rows", *(f"Δ {metric.title}" for metric in paired_metrics())], rows

    def _group(self, group: str, parts: Mapping[str, SliceMetrics]) -> dict[str, dict[str, Any]]:
        found = {name: part.metrics.as_dict() for name, part in parts.items()}
        for name, groups in self.by_group.items():
            if group in groups:
                found[name] |= {"against_platt": groups[group].as_dict()}
        return found


def compare(
    calibration: InteractionLog,
    test: InteractionLog,
    *,
    methods: Sequence[str] | None = None,
    history: InteractionLog | None = None,
    options: FitOptions | None = None,
    strict: bool = False,
) -> Comparison:
    """Fit and score ``methods`` (default: every method of the ladder that the logs support).

    An unfair pair of logs (:mod:`slc_ops.evidence.guards`) adds warnings; with ``strict`` it raises
    :class:`~slc_ops.base.errors.InputError`.
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
    slicing = by_group(test)

    def fitted_and_scored(method: str) -> Scored:
        begun = perf_counter()
        parameters = fit_prepared(method, prepared)
        seconds = perf_counter() - begun
        found = evaluate(parameters, test, [slicing], within=True, threads=options.workers)
        # The copy drops the look-up tables of scoring, which grow with the number of items.
        return Scored(replace(parameters), found, seconds)

    scored = side_by_side(list(dict.fromkeys([*chosen, REFERENCE])), fitted_and_scored, workers)
    evaluations = {name: each.found for name, each in scored.items()}
    platt, others = evaluations[REFERENCE], [name for name in chosen if name != REFERENCE]
    against = _against({name: (evaluations[name].users, platt.users) for name in others})
    groups = platt.users_by_slice()
    return Comparison(
        n_calibration=calibration.n_rows,
        n_test=test.n_rows,
        n_items=prepared.n_items,
        cold_start_share=share,
        methods={name: scored[name] for name in chosen},
        warnings=warnings,
        findings=found,
        differences=against,
        by_group={
            name: _against(
                {
                    key.removeprefix("group:"): (own, groups[key])
                    for key, own in evaluations[name].users_by_slice().items()
                },
                simultaneous=True,
            )
            for name in others
            if groups
        },
        clusters="users" if test.has("user_id") else "rows",
    )


def _against(
    pairs: Mapping[str, tuple[UserSums, UserSums]], *, simultaneous: bool = False
) -> dict[str, PairedDifference]:
    """Return the paired differences; without scipy they have no intervals."""
    if find_spec("scipy") is None:
        return {name: _without_intervals(*pair) for name, pair in pairs.items()}
    return differences(pairs, simultaneous=simultaneous)


def _without_intervals(one: UserSums, other: UserSums) -> PairedDifference:
    def minus(a: float | None, b: float | None) -> Interval:
        return Interval(None if a is None or b is None else a - b, reason=NO_SCIPY)

    found = {"auc": minus(one.auc, other.auc)}
    found |= {name: minus(one.mean(name), other.mean(name)) for name in one.means}
    return PairedDifference(found, one.rows, int((one.weight > 0).sum()), 0.95)


def cold_start_share(calibration: Calibration, test: InteractionLog) -> float:
    """Return the share of test rows whose item has no calibration row with positive weight."""
    counted = np.append(calibration.item_sums.n > 0, False)
    known = counted[IdIndex(calibration.log.items).positions(test.items)]
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
    """Return the ladder without some methods, and a warning with the reason."""
    out = [name for name, method in METHODS.items() if left_out(method)]
    return [name for name in METHODS if name not in out], (f"{reason}: {', '.join(out)} are left out",)
