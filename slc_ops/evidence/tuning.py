"""Prior variance and time bins, chosen inside the calibration windows.

The last calibration window tests fits on the ones before it (a single one is cut in time), by NLL.
The window on which the method will be scored plays no part in it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from slc_ops.base.errors import FitError, InputError
from slc_ops.base.methods import method_named
from slc_ops.evidence.evaluation import mean_log_loss
from slc_ops.evidence.fold_rows import FoldRows
from slc_ops.methods import FitOptions, fit_prepared
from slc_ops.settings.deployments import Decision


@dataclass(frozen=True)
class OptionGrid:
    """The values to try beside the deployment's own."""

    prior_vars: tuple[float, ...] = (0.1, 1.0, 10.0)
    time_bins: tuple[int, ...] = (5, 10)

    @classmethod
    def of(cls, rules: Decision) -> "OptionGrid":
        """The values that a deployment names."""
        return cls(rules.prior_vars, rules.time_bins)


def candidates(method: str, options: FitOptions, grid: OptionGrid) -> Iterator[FitOptions]:
    """The deployment's own options first, so that they win a tie.

    >>> [o.prior_var for o in candidates("slc", FitOptions(prior_var=0.5), OptionGrid((0.1, 1.0)))]
    [0.5, 0.1, 1.0]
    >>> len(list(candidates("platt", FitOptions(), OptionGrid())))
    1
    """
    tunes = method_named(method).tunes
    variances = [options.prior_var, *(grid.prior_vars if "prior_var" in tunes else ())]
    bins = [options.time_bins, *(grid.time_bins if "time_bins" in tunes else ())]
    seen = []
    for prior_var in variances:
        for time_bins in bins:
            if (prior_var, time_bins) not in seen:
                seen.append((prior_var, time_bins))
                yield replace(options, prior_var=prior_var, time_bins=time_bins)


def tune(method: str, rows: FoldRows, options: FitOptions, grid: OptionGrid) -> FitOptions:
    """The options with the lowest hold-out NLL; the given ones when there is nothing to compare."""
    tried = list(candidates(method, options, grid))
    if len(tried) == 1:
        return options
    try:
        earlier, later = rows.tuning
    except InputError:
        return options  # one timestamp only: nothing to look forward to
    losses = []
    for each in tried:
        try:
            loss = mean_log_loss(fit_prepared(method, earlier.under(each)), later, each.workers)
        except FitError:
            loss = None
        losses.append(float("inf") if loss is None else loss)
    return tried[losses.index(min(losses))]
