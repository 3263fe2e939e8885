"""The rules on windows of a refresh, as functions of small values.

    window   1   2   3   4   5   6   7   8
             o   o   c   c   T
                 o   o   c   c   T
                     o   o   c   c   T
                         o   o   c   c   T      the newest window
                             o   o   c   c      the published parameters

Every method is fitted on the last ``link_windows`` (c); a method with long memory takes its offsets from the
last ``offset_windows`` that can be used (o and c), a method that forgets its effects from still more, with
falling weights.
Each of the last ``evidence_windows`` that can be scored (T) is one entry of the series that decides the
method. Windows that are missing, stopped, held or of another backbone are excluded, never replaced. The very
first window has no earlier one: it is split in time.

A refresh calls these functions with its data on disk. A replay is a sequence of refreshes, so it calls them
too; no other code decides about windows.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from slc_ops.base.errors import InputError, SettingsError
from slc_ops.base.methods import METHODS
from slc_ops.base.window import Cadence, Window

if TYPE_CHECKING:
    from slc_ops.evidence.folds import Fold, FoldPlan

BACKBONE, HELD, STOPPED, TAKEN_BACK = "backbone", "held", "stopped", "taken_back"
"""Reasons for excluding a window: another backbone, a renewal that moved too far, validation, a person."""


@dataclass(frozen=True)
class Reach:
    """The number of windows of links, offsets and the series of evidence."""

    link: int
    offsets: int = 0
    evidence: int = 1
    forget: int = 0
    """Windows of methods that forget; 0 if none is compared."""
    half_life: float = 1.0
    """Age in windows at which their weight is a half."""

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> "Reach":
        """Read it from a deployment's settings, or from the plan of a refresh."""
        forgets = any(METHODS[name].forgets for name in settings["methods"] if name in METHODS)
        forget = dict(settings["forget"])
        return cls(
            settings["link_windows"],
            settings["offset_windows"],
            settings["evidence_windows"],
            forget["windows"] if forgets else 0,
            forget["half_life"],
        )

    @property
    def memory(self) -> int:
        """The longer of both memories: the link's windows are among the offsets'."""
        return max(self.link, self.offsets)

    @property
    def longest(self) -> int:
        """The windows of the longest memory of any method."""
        return max(self.memory, self.forget)


@dataclass(frozen=True)
class Memory:
    """The windows of a fit, oldest first; each tuple is the end of the next."""

    link: tuple[Window, ...]
    offsets: tuple[Window, ...]
    older: tuple[Window, ...] = ()
    """Windows of methods that forget; empty if none is compared."""


# --- reach ----------------------------------------------------------------------------------------------


def needed_windows(window: Window, reach: Reach) -> list[Window]:
    """Return the refreshed window and the earlier ones of its backtest, oldest first."""
    return [*window.before(reach.evidence - 1 + reach.longest), window]


def windows_read_again(window: Window, lookback: int) -> list[Window]:
    """Return the windows open to late rows and labels: the newest, and ``lookback`` before it."""
    return [*window.before(lookback), window]


def memory_up_to(last: Window, usable: Collection[Window], reach: Reach) -> Memory:
    """Return the usable windows of a fit that ends with a calendar window, which is usable or not.

    For a fit that is scored on a window, ``last`` is the window before it; for the published parameters it
    is the refreshed window. Gaps do not shorten the long memory: it has the last usable windows within the
    longest memory of any method. Levels change faster, so the link has the usable ones of its last calendar
    windows; if there are none, the last usable ones.

    >>> week = Window.parse("2026-01-26/2026-02-02")
    >>> usable = week.before(4)[:3]
    >>> found = memory_up_to(week, usable, Reach(2, 3, 1, forget=5))
    >>> [each.key for each in found.link], [each.key for each in found.offsets]
    (['2026-01-05', '2026-01-12'], ['2025-12-29', '2026-01-05', '2026-01-12'])
    >>> [each.key for each in memory_up_to(week, usable, Reach(2, 3, 1)).offsets]
    ['2026-01-12']
    """
    span = longest_memory(last, reach)
    known = tuple(each for each in span if each in usable)
    recent = tuple(each for each in span[-reach.link :] if each in usable)
    return Memory(recent or known[-reach.link :], known[-reach.memory :], known if reach.forget else ())


def longest_memory(last: Window, reach: Reach) -> list[Window]:
    """Return the windows of the longest memory of any method, gaps included."""
    return [*last.before(reach.longest - 1), last]


def plan_folds(windows: Sequence[tuple[Window, Path]], reach: Reach, *, summed: bool = False) -> "FoldPlan":
    """Return the folds over the usable windows; gaps are skipped and noted, never filled."""
    from slc_ops.evidence.folds import Fold, FoldPlan

    files = dict(sorted(windows))
    if not files:
        raise InputError("a comparison over windows needs windows; there are none")
    newest = max(files)
    notes = []
    planned = []
    for window in [*newest.before(reach.evidence - 1), newest]:
        if window not in files:
            notes.append(f"window {window} has no rows that may be used, so it has no entry")
            continue
        fold = _fold(window, files[window], window.before(1)[0], files, reach)
        if not fold.calibration:
            notes.append(f"nothing before window {window} to learn from, so it has no entry")
            continue
        if len(fold.calibration) < reach.link:
            notes.append(
                f"the methods scored on {window} learned from {len(fold.calibration)} of {reach.link} "
                "windows; the others have no rows that may be used"
            )
        planned.append(replace(fold, newest=window == newest, summed=summed))
    if not planned or planned[-1].window != newest:
        notes.append(
            f"there is no earlier window to fit on before {newest}: its later part was scored by fits on its "
            "earlier part"
        )
        alone = (newest.start.timestamp(),)
        planned.append(Fold(newest, (files[newest],), None, newest=True, starts=alone))
    return FoldPlan(tuple(planned), tuple(notes))


def next_fold(windows: Sequence[tuple[Window, Path]], reach: Reach) -> "Fold":
    """Return the fold after the newest window, whose fits a refresh publishes; it has no test rows yet."""
    files = dict(windows)
    newest = max(files)
    return replace(_fold(newest, Path(), newest, files, reach), summed=True)


def _fold(window: Window, test: Path, last: Window, files: Mapping[Window, Path], reach: Reach) -> "Fold":
    """Return a fold whose fits end with the calendar window ``last``, which has age 0 when they forget."""
    from slc_ops.evidence.folds import Fold
    from slc_ops.methods.fitting.options import Forgetting

    memory = memory_up_to(last, files, reach)
    link, offsets, older = (
        tuple(files[w] for w in part) for part in (memory.link, memory.offsets, memory.older)
    )
    starts = tuple(each.start.timestamp() for each in longest_memory(last, reach))
    forget = Forgetting(starts[-reach.forget :], reach.half_life) if reach.forget else None
    return Fold(window, link, test, offsets, older=older, forget=forget, starts=starts)


# --- usable or not --------------------------------------------------------------------------------------


def left_out(
    window: Window,
    names: AbstractSet[str],
    newest: Window,
    newest_names: AbstractSet[str],
    held: Mapping[Window, str],
    taken_back: Mapping[Window, str],
) -> dict[str, str] | None:
    """Return the reason why a window is not even validated; None if it may be used after validation.

    ``names`` are the backbone versions of its rows, ``newest_names`` those of the newest window. Rows without
    a version may be of any backbone.
    """
    if names and newest_names and not names & newest_names:
        reason = f"it is of backbone {_listed(names)}, and {newest} of {_listed(newest_names)}"
        return excluded(window, BACKBONE, reason)
    if window in taken_back and window != newest:
        return excluded(window, TAKEN_BACK, taken_back[window])
    return excluded(window, HELD, held[window]) if window in held else None


def excluded(window: Window, kind: str, reason: str) -> dict[str, str]:
    """Return an excluded window in the plan's form."""
    return {"window": str(window), "kind": kind, "reason": reason}


def part_to_use(
    names: AbstractSet[str], serving: str | None, *, mixed: bool
) -> Literal["all", "some", "none"]:
    """Return the part of a validated window that has the backbone at the end of the newest one.

    ``mixed``: the deployment allows mixtures, and every window stays as it is.

    >>> [part_to_use(set(names), "b", mixed=False) for names in ("", "b", "ab", "a")]
    ['all', 'all', 'some', 'none']
    """
    if mixed or serving is None or names <= {serving}:
        return "all"
    return "some" if serving in names else "none"


def of_another(window: Window, names: AbstractSet[str], serving: str | None) -> dict[str, str]:
    """Return the exclusion of a validated window without rows of the serving backbone."""
    return excluded(window, BACKBONE, f"of backbone {_listed(names)}; the newest window is of {serving}")


def windows_of_the_backbone_before(
    first: Window, others: Iterable[tuple[Window, AbstractSet[str]]], reach: Reach, methods: Collection[str]
) -> list[Window]:
    """Return the windows of the backbone before ``first``, for the prior mean of the new one's offsets.

    Of ``others``, windows of other backbones with their versions, those entirely of the newest version before
    ``first``. Beyond the long memory there are none.
    """
    if "slc_eb" not in methods:
        return []
    before = [(window, names) for window, names in others if window.end <= first.start and len(names) == 1]
    if not before:
        return []
    _, newest = max(before, key=lambda each: each[0].end)
    return [window for window, names in before if names == newest][-reach.offsets :]


def held_windows(renewals: Sequence[tuple[Window, Mapping[str, Any]]]) -> dict[Window, str]:
    """Return window → sentence for renewals that moved too far; ``renewals`` oldest first, {} for none.

    Later refreshes exclude them, unless the next window moved as far and was accepted.
    """
    found = {}
    for (window, renewal), (_, later) in zip(renewals, [*renewals[1:], (None, {})], strict=True):
        too_far = renewal.get("limit") is not None and not renewal["accepted"]
        if too_far and not later.get("lasting"):
            found[window] = f"its renewal was held: {renewal['sentence']}"
    return found


def is_held_before(window: Window, exclusions: Iterable[Mapping[str, str]]) -> bool:
    """Return True if the previous window was held, and therefore excluded."""
    before = str(window.before(1)[0])
    return any(each.get("kind") == HELD and each["window"] == before for each in exclusions)


# --- due, and on the grid -------------------------------------------------------------------------------


def is_scheduled(window: Window, cadence: Cadence, every: int) -> bool:
    """Return True if a scheduled refresh ends with this window; ``every`` is ``refresh_every``."""
    return cadence.span(window, every).end == window.end


def check_labels_due(window: Window, lag: timedelta | None, at: datetime, *, hint: str) -> None:
    """Raise :class:`SettingsError` if labels may still arrive after ``at``: the rates would be wrong."""
    if lag is not None and at < (due := window.end + lag):
        raise SettingsError(
            f"the labels of window {window} are due on {due:%Y-%m-%d %H:%M} UTC (label_lag), and it is "
            f"{at:%Y-%m-%d %H:%M}; refresh it then, or give {hint} to do it anyway"
        )


def check_on_grid(window: Window, cadence: Cadence, name: str, *, hint: str) -> None:
    """Raise :class:`SettingsError` for a window that is not on the deployment's grid."""
    if not cadence.holds(window):
        instead = " or ".join(str(each) for each in _windows_at(cadence, window))
        raise SettingsError(
            f"window {window} is no {cadence.name} of {name!r} ({cadence.described}); refresh {instead}, "
            f"or give {hint} to do it anyway"
        )


def check_no_overlap(
    window: Window, refreshed: Collection[Window], cadence: Cadence, name: str, *, hint: str
) -> None:
    """Raise :class:`SettingsError` for an overlap with a refreshed window, after a change of ``window``."""
    for other in refreshed:
        if other != window and other.start < window.end and window.start < other.end:
            raise SettingsError(
                f"window {window} of {name!r} overlaps with {other}, which was refreshed before, so the same "
                f"rows would count in both; "
                f"{_way_out(cadence, other, max(each.end for each in refreshed if each != window))}"
                f"give {hint} to do it anyway"
            )


def _way_out(cadence: Cadence, other: Window, end: datetime) -> str:
    """Return the remedy for an overlap with ``other``; ``end`` is the end of the refreshed windows."""
    from zoneinfo import ZoneInfo

    if cadence.holds(other):
        return ""
    free = cadence.containing(end)
    if free.start < end:
        free = cadence.containing(free.end)
    day = end.astimezone(ZoneInfo(cadence.zone)).date()
    return (
        f"its windows had other bounds then: continue with {free}, or set window.anchor to {day} so that one "
        "begins there, or use a separate deployment for the new cadence; "
    )


def _windows_at(cadence: Cadence, window: Window) -> list[Window]:
    """Return the windows of the grid that contain the window's start and end.

    >>> [str(week) for week in _windows_at(Cadence(), Window.parse("2026-01-06/2026-01-13"))]
    ['2026-01-05/2026-01-12', '2026-01-12/2026-01-19']
    """
    first = cadence.containing(window.start)
    if window.end <= first.end:
        return [first]
    last = cadence.containing(window.end)
    return [first, last if last.start < window.end else cadence.complete_at(window.end)]


def _listed(names: AbstractSet[str]) -> str:
    return ", ".join(sorted(names))
