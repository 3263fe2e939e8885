"""Tune prior variance and time bins inside the calibration windows.

Fits on all calibration windows but the last are compared by NLL on the last one; a single window is cut in
time. The window on which the method is scored is not used.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from slc_ops.base.errors import FitError, InputError
from slc_ops.base.methods import method_named
from slc_ops.evidence.evaluation import mean_log_loss
from slc_ops.evidence.folds import FoldRows
from slc_ops.methods import FitOptions, fit_prepared
from slc_ops.settings.blocks import Decision


def candidates(method: str, options: FitOptions, rules: Decision) -> Iterator[FitOptions]:
    """Yield the options to try, the deployment's own first, so that they win a tie.

    >>> [o.prior_var for o in candidates("slc", FitOptions(prior_var=0.5), Decision(prior_vars=(0.1, 1.0)))]
    [0.5, 0.1, 1.0]
    >>> len(list(candidates("platt", FitOptions(), Decision())))
    1
    """
    tunes = method_named(method).tunes
    variances = [options.prior_var, *(rules.prior_vars if "prior_var" in tunes else ())]
    bins = [options.time_bins, *(rules.time_bins if "time_bins" in tunes else ())]
    for prior_var, time_bins in dict.fromkeys(product(variances, bins)):
        yield replace(options, prior_var=prior_var, time_bins=time_bins)


def tune(method: str, rows: FoldRows, options: FitOptions, rules: Decision) -> FitOptions:
    """Return the options with the lowest hold-out NLL; the given ones if there is nothing to compare."""
    tried = list(candidates(method, options, rules))
    if len(tried) == 1:
        return options
    try:
        earlier, later = rows.tuning
    except InputError:
        return options  # the rows cannot be cut in time
    losses = []
    for each in tried:
        try:
            loss = mean_log_loss(fit_prepared(method, earlier.under(each)), later, each.workers)
        except FitError:
            loss = None
        losses.append(float("inf") if loss is None else loss)
    return tried[losses.index(min(losses))]
