"""The line of a log in windows: a level that jumps from window to window is not taken for a lasting one.

With x the standardised logit the frozen model is η₀ = mean + spread·x. In window w its line is

    p = σ(η₀ + δ + c_w·x + b_w),    (c_w, b_w) = m_w + e_w,    m_w = m_{w−1} + u_w,    m_1 ~ N(0, t²),

where δ are known offsets, e_w is the window's own deviation (standard deviation τ of the level, r·τ of the
slope) and u_w a lasting step (q and r·q per window, also of windows without rows). The next window gets the
mean of m after the last one. t, τ, q and r are unknown: the result is the average over a grid of them,
weighted by their evidence. If the frozen model is off in every window, t is large and the line is followed at
once; if the level jumps around the frozen model's, τ is large, t small, and the line stays near it.

A window enters by its gradient and information at one line near all of them: one Newton step gives its own
line, and the inverse information times the design effect the covariance of that. So one pass over the rows
suffices, and the evidence is that of a Kalman filter.

:func:`followed` is the mean of this line and one that takes the newest windows for one: four windows tell
lasting and passing deviations apart poorly, and the errors of the two lines differ. On 48 real logs the mean
was better than either (docs/performance.md).
"""

from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np

from slc_ops.methods.fitting.calibration import Calibration, Offsets
from slc_ops.methods.fitting.design_effect import design_effect
from slc_ops.methods.fitting.link import FittedLink, line_of, link_terms
from slc_ops.methods.fitting.logistic import NO_OFFSETS, Terms
from slc_ops.numerics.kernels import Floats, dot, slices
from slc_ops.numerics.newton import State
from slc_ops.numerics.time_bins import window_of
from slc_ops.rows.passes import Totals
from slc_ops.rows.rows import TIME, Rows

WIDTHS = (1.5, 0.4, 0.1, 0.02)
DEVIATIONS = STEPS = (0.0, 0.1, 0.3, 0.9)
SLOPE_RATIOS = (0.0, 0.3, 1.0)
RARE = float(np.log(1 / 3))
"""Log prior weight of each deviation and each step above 0: no step is as probable as any step."""
LEAST_INFORMATION = 1e-3


def grid() -> tuple[Floats, Floats, Floats, Floats]:
    """Return the variances of m_1, e_w and u_w, each of (slope, level), and the log prior weights."""
    points = np.array(list(product(WIDTHS, DEVIATIONS, STEPS, SLOPE_RATIOS)))
    width, deviation, step, ratio = points.T
    return (
        np.stack([width, width], axis=1) ** 2,
        np.stack([ratio * deviation, deviation], axis=1) ** 2,
        np.stack([ratio * step, step], axis=1) ** 2,
        RARE * ((deviation > 0).astype(np.float64) + (step > 0)),
    )


def followed(
    line: FittedLink, newest: Calibration, calibration: Calibration, offsets: Offsets | None = None
) -> FittedLink:
    """Return the mean of a line of the newest windows and the moving line of all; ``line`` without windows.

    ``offsets`` are known offsets of the calibration's rows.
    """
    if not calibration.starts:
        return line
    mean, spread = newest.logit_moments
    terms = replace(link_terms(newest), known=offsets)
    near = np.array([line.a * spread, line.b0 + line.a * mean])[1 - len(terms.covariates) :]
    moving = moving_line(calibration, terms, near, design_effect(calibration))
    found = line_of(newest, (near + moving) / 2)
    return replace(found, warnings=line.warnings)


def moving_line(calibration: Calibration, terms: Terms, near: Floats, rows_of_one: float = 1.0) -> Floats:
    """Return the standardised coefficients for the window after the calibration's last one.

    ``terms`` has the logit, unless all are equal, and known offsets; ``near`` is a line near all windows;
    ``rows_of_one`` is the design effect.
    """
    # Constant logits have no slope, and their mean is the frozen level.
    _, mean, spread = terms.covariates[0] if terms.covariates else ("logit", *calibration.logit_moments)
    size = len(near)
    frozen = np.array([spread, mean])[-size:]
    starts = np.array(calibration.starts)
    sums = (
        calibration.add_up(
            partial(_window_sums, terms, State(near, NO_OFFSETS), starts),
            columns=terms.columns | TIME,
            n_keys=len(starts),
        ).values
        / rows_of_one
    )
    return frozen + filtered(near - frozen, sums[:, :size], sums[:, size:].reshape(len(starts), size, size))


def filtered(near: Floats, pull: Floats, information: Floats) -> Floats:
    """Return the departure from the frozen model's line after the last window.

    ``near`` is the departure that ``pull``, −gradient, and ``information`` of each window belong to.

    >>> far, jumps = np.array([[0.5]] * 4), np.array([[0.5], [-0.4], [0.6], [-0.7]])
    >>> known = np.full((4, 1, 1), 400.0)
    >>> [filtered(np.zeros(1), 400.0 * level, known).round(2).tolist() for level in (far, jumps)]
    [[0.5], [-0.14]]
    """
    size, (*variances, evidence) = len(near), grid()
    first, deviation, step = (each[:, -size:, None] * np.eye(size) for each in variances)
    mean, covariance = np.zeros((len(first), size)), first
    begun = False
    for slope, curvature in zip(pull, information, strict=True):
        covariance = covariance + step if begun else covariance
        if np.trace(curvature) < LEAST_INFORMATION:
            continue  # a window without rows
        begun = True
        own = np.linalg.inv(curvature + LEAST_INFORMATION * np.eye(size))
        surprise = near + own @ slope - mean
        spread = covariance + deviation + own
        inverse = np.linalg.inv(spread)
        gain = covariance @ inverse
        distance = np.einsum("gi,gij,gj->g", surprise, inverse, surprise)
        evidence = evidence - 0.5 * (np.linalg.slogdet(spread)[1] + distance)
        mean = mean + np.einsum("gij,gj->gi", gain, surprise)
        covariance = covariance - gain @ covariance
    share = np.exp(evidence - evidence.max())
    return np.asarray(share @ mean / share.sum())


def _window_sums(terms: Terms, state: State, starts: Floats, rows: Rows) -> Totals:
    """Return −gradient and information of each window, side by side."""
    size = len(state.link)
    sums = np.zeros((len(starts), size + size * size))
    for part in slices(len(rows)):
        here = terms.at(state, rows, part)
        assert rows.time is not None  # noqa: S101 - the pass requests times
        residual, fisher = np.empty((2, len(here.eta)))
        columns = [*here.columns, np.ones(len(residual))]
        here.residual_and_fisher(residual, fisher)
        windows = window_of(starts, rows.time[part])
        for window in range(windows.min(), windows.max() + 1):
            its_rows = windows == window
            own = [column[its_rows] for column in columns]
            pull, weight = residual[its_rows], fisher[its_rows]
            sums[window, :size] -= [dot(pull, x) for x in own]
            sums[window, size:] += [dot(weight * x, other) for x in own for other in own]
    return Totals(sums)
