"""The statistics table: one row, with one column per measure of an expectation."""

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean, median
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from slc_ops.intake.contract import REPEATED_TIMES, SKIPPED_TIMES
from slc_ops.intake.labels import CHANGED, CONTRADICTORY, EARLY, EXPECTED, READ, REPEATED, UNMATCHED, WAITING
from slc_ops.intake.manifest import WindowManifest
from slc_ops.quality.statistics import Statistics, item_ids

ENOUGH_ROWS = 100
"""Minimum number of logits in [0, 1] for a finding, and of rows of a day for a ratio."""
LEAST_REACH = 0.05
"""Minimum of the spread of label rates between windows."""
SPREAD_WINDOWS = 3
"""Minimum number of baseline windows that show how far a misfit varies."""


def measures(
    now: Statistics,
    manifest: WindowManifest,
    before: Sequence[tuple[WindowManifest, Statistics]],
    weekdays: Sequence[Statistics],
) -> dict[str, Any]:
    """Return the window's statistics, and its differences to the trailing windows with rows.

    The number of rows is compared with that of the same ``weekdays``, if given. An undefined measure (no
    history, no valid logit) is absent, and its expectations are skipped.
    """
    table: dict[str, Any] = {f"type_{column}": name for column, name in now.types.items()}
    table["rows"] = now.rows
    table["score_columns"] = sum(now.types[column] != "missing" for column in ("logit", "probability"))
    table["backbone_versions"] = len(now.versions)
    for note in ("rows_without_time", REPEATED_TIMES, SKIPPED_TIMES):
        table[note] = manifest.notes.get(note, 0)
    if not now.rows:
        return table
    table |= {f"share_{code}": count / now.rows for code, count in now.failed.items()}
    table |= {
        "share_failed_rows": now.failed_rows / now.rows,
        "share_repeated_rows": now.repeated_rows / now.rows,
        "silent_hours": now.silent_hours,
        "logits_like_probabilities": int(like_probabilities(now)),
    }
    if now.label_rate is not None:
        table["label_rate"] = now.label_rate
    table |= label_measures(now, manifest.notes)
    table["windows_before"] = sum(s.rows > 0 for _, s in before)
    return table | against_trailing(now, manifest, [(m, s) for m, s in before if s.rows], weekdays)


def label_measures(now: Statistics, notes: Mapping[str, Any]) -> dict[str, float]:
    """Return the extraction's shares of labels that are late, unmatched, repeated or changed."""
    asked = now.rows + notes.get(WAITING, 0)
    found = {
        "unlabelled": (notes.get(WAITING), asked),
        "labels_unmatched": (notes.get(UNMATCHED), notes.get(EXPECTED)),
        "labels_repeated": (notes.get(REPEATED), notes.get(READ)),
        "labels_contradictory": (notes.get(CONTRADICTORY), notes.get(READ)),
        "labels_early": (notes.get(EARLY), asked),
        "labels_changed": (notes.get(CHANGED), now.rows),
    }
    return {
        f"share_{name}": part / whole for name, (part, whole) in found.items() if whole and part is not None
    }


def like_probabilities(now: Statistics) -> bool:
    """Return True if the logit column contains probabilities: all are in [0, 1] and fit the labels better so.

    A model that hardly varies has such logits, too (0.12 for 53 %), hence the comparison with the labels.
    """
    if now.types["logit"] == "missing" or now.logit_low is None or now.logit_high is None or not now.logit_sd:
        return False
    if now.rows < ENOUGH_ROWS or now.logit_low < 0 or now.logit_high > 1:
        return False
    return (now.nll_as_probabilities or 0.0) < (now.nll_as_logits or 0.0)


def against_trailing(
    now: Statistics,
    manifest: WindowManifest,
    before: Sequence[tuple[WindowManifest, Statistics]],
    weekdays: Sequence[Statistics],
) -> dict[str, Any]:
    """Return the window's differences to the trailing windows."""
    past = [statistics for _, statistics in before]
    table: dict[str, Any] = {}
    if weekdays or past:
        table["rows_ratio"] = now.rows / median(s.rows for s in weekdays or past)
    if not past:
        return table
    table["columns_changed"] = len(changed_columns(now, past))
    if len(now.rows_by_day) > 1 and (unusual := most_unusual_day(day_ratios(now, past))):
        table["rows_by_day_ratio"] = unusual[1]
    rates = [s.label_rate for s in past if s.label_rate is not None]
    if rates and now.label_rate is not None:
        usual = fmean(rates)
        table["label_rate_shift"] = abs(now.label_rate - usual)
        reach = max(LEAST_REACH, *(abs(rate - usual) for rate in rates))
        table["label_rate_leap"] = table["label_rate_shift"] / reach
    if (leap := misfit_leap(now, past)) is not None:
        table["label_misfit_leap"] = leap
    means = [s.logit_mean for s in past if s.logit_mean is not None]
    sds = [s.logit_sd for s in past if s.logit_sd]
    if means and sds and now.logit_mean is not None and now.logit_sd is not None:
        table["logit_mean_shift"] = abs(now.logit_mean - fmean(means)) / fmean(sds)
        table["logit_sd_ratio"] = now.logit_sd / fmean(sds)
    mine = item_ids(manifest.directory)
    if len(mine):
        table["share_unseen_items"] = unseen_share(mine, [item_ids(each.directory) for each, _ in before])
    if now.versions and any(s.versions for s in past):
        table["backbone_mix_shift"] = mix_distance(now, past)
    return table


def unseen_share(items: pa.ChunkedArray, before: Sequence[pa.ChunkedArray]) -> float:
    """Return the share of items missing from the earlier windows, beyond what is usual among these.

    With u the share that is missing and v the mean share of each earlier window's items that the others miss,
    it is (u − v) / (1 − v), at least 0: a window with a few rows of many items misses most of them.

    >>> dense, sparse = (
    ...     [pa.chunked_array([list(items)]) for items in weeks]
    ...     for weeks in (("ab", "bc", "ac", "xy", "cd"), ("ab", "bd", "ea", "bf"))
    ... )
    >>> [round(unseen_share(each, dense[:3]), 2) for each in dense[3:]]
    [1.0, 0.5]
    >>> round(unseen_share(sparse[3], sparse[:3]), 2)
    0.25
    """
    missing = _missing(items, before)
    others = [_missing(each, [*before[:k], *before[k + 1 :]]) for k, each in enumerate(before) if len(each)]
    usual = fmean(others) if len(others) > 1 else 0.0
    return max(0.0, (missing - usual) / (1.0 - usual)) if usual < 1 else 0.0


def _missing(items: pa.ChunkedArray, known: Sequence[pa.ChunkedArray]) -> float:
    together = pa.chunked_array([chunk for each in known for chunk in each.chunks], pa.string())
    return 1.0 - (pc.sum(pc.is_in(items, value_set=together)).as_py() or 0) / len(items)


def misfit_leap(now: Statistics, past: Sequence[Statistics]) -> float | None:
    """Return the rise of the misfit above the baseline's mean, in multiples of its usual variation.

    That is the largest distance of a baseline window from their mean, or twice the standard error.
    """
    known = [s.label_misfit for s in past if s.label_misfit is not None]
    if now.label_misfit is None or not now.label_misfit_error or len(known) < SPREAD_WINDOWS:
        return None
    usual = fmean(known)
    reach = max(2 * now.label_misfit_error, *(abs(each - usual) for each in known))
    return (now.label_misfit - usual) / reach


def changed_columns(now: Statistics, past: Sequence[Statistics]) -> list[str]:
    """Return columns whose type differs from the last window's; a fit treats both types alike."""
    before = past[-1].types if past else now.types
    return [
        f"{name}: {before[name]}, now {now.types[name]}"
        for name in ("item_id", "user_id", "group_id", "logit", "probability", "weight")
        if before[name] != now.types[name]
    ]


def usual_days(now: Statistics, past: Sequence[Statistics]) -> list[float | None]:
    """Return per day the median rows of that day in the trailing windows of the same length."""
    past_days = [s.rows_by_day for s in past if s.rows and len(s.rows_by_day) == len(now.rows_by_day)]
    if not past_days:
        return [None] * len(now.rows_by_day)
    return [median(same_day) for same_day in zip(*past_days, strict=True)]


def day_ratios(now: Statistics, past: Sequence[Statistics]) -> list[float | None]:
    """Return per day its rows relative to the same day of the trailing windows; None if those have few rows.

    In windows of whole weeks a day is compared with the same weekday, so a weekly rhythm is not unusual.
    """
    return [
        None if usual is None or usual < ENOUGH_ROWS else rows / usual
        for rows, usual in zip(now.rows_by_day, usual_days(now, past), strict=True)
    ]


def most_unusual_day(ratios: Sequence[float | None]) -> tuple[int, float] | None:
    """Return the day whose ratio is farthest from 1, as a factor either way, and that ratio.

    >>> most_unusual_day([1.1, None, 0.4, 2.0])
    (2, 0.4)
    """
    known = [(day, ratio) for day, ratio in enumerate(ratios) if ratio is not None]
    return min(known, key=lambda each: min(each[1], 1 / each[1] if each[1] else 0.0), default=None)


def mix_distance(now: Statistics, past: Sequence[Statistics]) -> float:
    """Return the share of rows that would have to change their backbone version to give the trailing mix.

    Rows without a version do not count.
    """
    before: Counter[str] = Counter()
    for statistics in past:
        before.update(statistics.versions)
    named = sum(now.versions.values())
    return 0.5 * sum(
        abs(now.versions.get(name, 0) / named - before[name] / before.total())
        for name in {*now.versions, *before}
    )
