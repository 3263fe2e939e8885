"""Check renewed parameters against past renewals of the same method, and hold them if they move too far.

Two lengths, in logits, measure how far a renewal moves the predictions of the rows behind its link:

    link     sqrt( (Δa·η̄ + Δb₀)² + (Δa·sd η)² )          η̄, sd: their logits
    offsets  sqrt( Σ nᵢ Δπᵢ² / Σ nᵢ )                    items of both sets, nᵢ: their weight

Past renewals need no records: the fits behind the series' windows are the parameters published for each
window, and the lengths between neighbours are those of the renewals. With at least four past renewals, a
length above five times the past median (floor 0.1) holds a renewal; with fewer, only a slope that is not
above 0 does. The move over the last four renewals together is compared with
twice the limit, to detect small steps in one direction; the items behind a large move are named.

The median of at most seven lengths is noisy, hence the floor: 0.05 held four ordinary weeks of nine flight
logs (offsets up to 6.3 times a small median), 0.1 held none of 684 renewals; the nearest reached 0.84 of its
limit. A week of inverted labels, five weeks on each log, exceeds the limit in 33 of 45 cases of slc_eb and 26
of 45 of Platt (35 and 26 with 0.05); in the year's last week in 1 of 9. The floor was chosen on these logs,
among about a hundred rules. A week with shuffled items moves one eighth of the offsets: no check of
parameters detects it, and it does equally little harm.

A held window is excluded from later fits; two in a row are a lasting change and are accepted.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from slc_ops.base.buffers import as_numpy
from slc_ops.base.ids import IdIndex
from slc_ops.base.json_form import JsonForm
from slc_ops.numerics.curves import Affine
from slc_ops.numerics.kernels import Floats
from slc_ops.parameters.effects import Effect
from slc_ops.parameters.parameter_set import ParameterSet

FACTOR = 5.0
FLOOR = 0.1
LEAST_RENEWALS = 4
NAMED = 3


@dataclass(frozen=True)
class Lengths:
    """The distance between two successive parameter sets, in logits."""

    link: float
    offsets: float


@dataclass(frozen=True)
class Renewal(JsonForm):
    """The result of the check; ``limit`` is None with too few past renewals."""

    accepted: bool
    lasting: bool
    lengths: Lengths | None
    limit: Lengths | None
    sentence: str


def lengths(before: ParameterSet, after: ParameterSet, moments: tuple[float, float]) -> Lengths:
    """Return the distance in logits; ``moments`` are mean and standard deviation of the logits."""
    link = 0.0
    if isinstance(before.link, Affine) and isinstance(after.link, Affine):
        a, b0 = after.link.a - before.link.a, after.link.b0 - before.link.b0
        link = float(np.hypot(a * moments[0] + b0, a * moments[1]))
    return Lengths(link, _offsets_moved(before, after))


def check_renewal(
    after: ParameterSet,
    past: Sequence[ParameterSet],
    moments: tuple[float, float],
    *,
    slope_error: float = 0.0,
    held_before: bool = False,
) -> Renewal:
    """Hold new parameters that moved beyond the limits of past renewals.

    ``past`` are the same method's earlier fits, oldest first; ``slope_error`` is the standard error of its
    slope; ``held_before`` is True if this check held the previous window.
    """
    backwards = _backwards(after, slope_error)
    if backwards is not None and len(past) <= LEAST_RENEWALS:
        return Renewal(False, False, None, None, backwards)
    if not past:
        return Renewal(True, False, None, None, f"the first parameters of {after.method}")
    found = lengths(past[-1], after, moments)
    steps = [lengths(one, other, moments) for one, other in pairwise(past)]
    if len(steps) < LEAST_RENEWALS:
        text = f"{after.method} moved by {_words(found)}; no limit yet: only {len(steps)} earlier renewals"
        return Renewal(True, False, found, None, text)
    limit = Lengths(
        FACTOR * max(float(np.median([step.link for step in steps])), FLOOR),
        FACTOR * max(float(np.median([step.offsets for step in steps])), FLOOR),
    )
    beyond = found.link > limit.link or found.offsets > limit.offsets
    moved = f"{after.method} moved by {_words(found)} (limits {limit.link:.2f} and {limit.offsets:.2f})"
    over = lengths(past[-LEAST_RENEWALS], after, moments)
    root = LEAST_RENEWALS**0.5  # independent steps add up like this
    if not beyond and (over.link > root * limit.link or over.offsets > root * limit.offsets):
        beyond = True
        moved += f", and by {_words(over)} over the last {LEAST_RENEWALS} renewals"
    if beyond:
        moved += _movers(past[-LEAST_RENEWALS], after)
    if not beyond:
        return Renewal(True, False, found, limit, moved)
    lasting = held_before and backwards is None
    if lasting:
        text = f"{moved}, the second window in a row: accepted as a lasting change"
    else:
        text = backwards or (
            f"{moved}, beyond the limit: the parameters that serve stay, and the window is "
            "left out of later fits unless the next one moves as far"
        )
    return Renewal(lasting, lasting, found, limit, text)


def _backwards(after: ParameterSet, slope_error: float) -> str | None:
    """Return an error if the slope is at most −2 of its standard errors, else None.

    Inverted logits move the link far and are held as long as they last. A backbone with almost no signal has
    a slope around 0 of either sign, which moves little and does no harm.
    """
    affine = after.affine()
    if affine is None or affine["a"] > min(0.0, -2 * slope_error):
        return None
    return (
        f"the slope of {after.method} is {affine['a']:.3f}: the backbone does not rank, or ranks in reverse; "
        "check its logits"
    )


def _offsets_moved(before: ParameterSet, after: ParameterSet) -> float:
    """Return the largest move of the effects in both sets."""
    both = set(before.effects) & set(after.effects)
    return max((_effect_moved(before.effects[name], after.effects[name]) for name in both), default=0.0)


def _effect_moved(before: Effect, after: Effect) -> float:
    if before.time_edges is not None:
        return 0.0
    weight, moved, _ = _moves(before, after)
    return float(np.sqrt(weight @ moved**2 / weight.sum())) if weight.sum() > 0 else 0.0


def _moves(before: Effect, after: Effect) -> tuple[Floats, Floats, NDArray[np.intp]]:
    """Return weight, move and position in ``after`` of the ids in both effects."""
    positions = IdIndex(before.ids).positions(after.ids)
    known = np.flatnonzero(positions >= 0)
    offset = as_numpy(before.table.column("offset"))
    moved = as_numpy(after.table.column("offset"))[known] - offset[positions[known]]
    return as_numpy(after.table.column("n_obs"))[known], moved, known


def _movers(before: ParameterSet, after: ParameterSet) -> str:
    """Name up to three items that cause at least half of a move; empty without such items."""
    one, two = before.effects.get("item"), after.effects.get("item")
    if one is None or two is None or one.time_edges is not None:
        return ""
    weight, moved, known = _moves(one, two)
    share = weight * moved**2
    most = np.argsort(-share, kind="stable")[:NAMED]
    if not len(most) or share[most].sum() < 0.5 * share.sum():
        return ""
    ids = two.ids
    named = ", ".join(f"{ids[int(known[k])].as_py()} by {moved[k]:+.2f}" for k in most if share[k] > 0)
    return f"; the items that account for most of it are {named}" if named else ""


def _words(found: Lengths) -> str:
    return f"{found.link:.3f} in the link and {found.offsets:.3f} in the offsets"
