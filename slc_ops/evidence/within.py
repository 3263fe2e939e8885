"""Compute the AUC over pairs of rows of the same user or of the same item.

The AUC of all rows mixes three kinds of pairs. An offset per item changes only pairs of different items: it
improves the AUC within users, who see many items, and leaves that within items as in the frozen model. An
effect per user does the reverse. A slope per item also changes pairs of different items, and pairs of one
item only if it reverses the item's order. A group effect changes pairs of one item with several groups.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from slc_ops.base.text import signed
from slc_ops.evidence.auc import Scored
from slc_ops.numerics.kernels import dot, stable_order

Within = Mapping[str, float | None]
"""The AUC by kind of pair: ``user``, ``item``; None if no pair has both labels."""
ALIKE = 5e-5
"""Smaller differences vanish at four digits."""
NAMED = 4
"""Maximum number of methods in a sentence, by largest difference."""


def auc_within(keys: NDArray[np.integer], rows: Scored) -> float | None:
    """Return the AUC over pairs of rows with the same key, weighted by pairs; None without such pairs.

    The rows must be sorted by score.

    >>> from slc_ops.evidence.auc import ones
    >>> rows = Scored(np.array([0.1, 0.2, 0.8, 0.9]), np.array([False, True, False, True]), ones(4))
    >>> auc_within(np.array([1, 1, 0, 0]), rows), auc_within(np.array([0, 1, 1, 0]), rows)
    (1.0, 0.5)
    """
    if not len(keys):
        return None
    order = stable_order(keys)
    key, sorted_rows = keys.take(order), rows.take(order)
    score, positive = sorted_rows.score, sorted_rows.weight * sorted_rows.positive
    negative = sorted_rows.weight - positive
    new_key = np.append(True, key[1:] != key[:-1])
    runs = np.flatnonzero(new_key | np.append(True, score[1:] != score[:-1]))  # equal scores of a key
    positive, negative = np.add.reduceat(positive, runs), np.add.reduceat(negative, runs)
    starts = np.searchsorted(runs, np.flatnonzero(new_key))
    upto = np.cumsum(negative)
    before = (upto - negative)[starts]  # the negatives of other keys
    rank = upto - 0.5 * negative - np.repeat(before, np.diff(np.append(starts, len(runs))))
    pairs = dot(np.add.reduceat(positive, starts), np.append(before[1:], upto[-1]) - before)
    return dot(positive, rank) / pairs if pairs > 0 else None


def ranking_in_words(found: Mapping[str, Within]) -> str | None:
    """Name the methods with better ranking within users and items; None if there is nothing to compare.

    The reference is Platt, which ranks rows like the frozen model; without Platt, the frozen model.

    >>> platt, item, user = (dict(user=u, item=i) for u, i in [(0.66, 0.67), (0.71, 0.67), (0.71, 0.69)])
    >>> print(ranking_in_words({"platt": platt, "slc_eb": item, "slc_mix": user}).replace("; ", "\\n"))
    Compared with platt, rows of the same user are ranked better by slc_eb (+0.0500) and slc_mix (+0.0500)
    rows of the same item are ranked better by slc_mix (+0.0200).
    """
    reference = "platt" if "platt" in found else "base"
    against = {kind: value for kind, value in found.get(reference, {}).items() if value is not None}
    if not against or len(found) < 2:
        return None
    parts = []
    for kind, value in against.items():
        gains = {
            name: own - value
            for name, each in found.items()
            if name != reference and (own := each.get(kind)) is not None
        }
        better = {name: gain for name, gain in gains.items() if gain >= ALIKE}
        worse = {name: gain for name, gain in gains.items() if gain <= -ALIKE}
        said = [f"better by {_listed(better)}"] if better else []
        said += [f"worse by {_listed(worse)}"] if worse else []
        parts.append(f"rows of the same {kind} are ranked {' and '.join(said) or 'alike by all'}")
    return f"Compared with {reference}, {'; '.join(parts)}."


def _listed(gains: Mapping[str, float]) -> str:
    """List the methods with the largest differences, and the number of others."""
    largest = sorted(gains, key=lambda name: -abs(gains[name]))[:NAMED]
    named = [f"{name} ({signed(gains[name])})" for name in gains if name in largest]
    if len(gains) > NAMED:
        named.append(f"{len(gains) - NAMED} others")
    return f"{', '.join(named[:-1])} and {named[-1]}" if len(named) > 1 else named[0]
