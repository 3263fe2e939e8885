"""The table of methods: the properties of each method, in one place.

Settings, the command line, tuning, the decision, the self-tests, the report and ``docs/methods.md`` read this
table; no other module lists methods by property. The fitting code is in ``slc_ops/methods/<name>.py``, one
module per method. A new method is one such module and one entry here. ``tests/methods/test_table.py`` checks
every entry against the fit.

>>> METHODS["slc_t"].needs_time, METHODS["slc"].needs_time
(True, False)
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal

from slc_ops.base.errors import SettingsError

Input = Literal["score", "item", "time", "group", "user"]
Option = Literal["prior_var", "time_bins"]


@dataclass(frozen=True)
class Method:
    """One method of the ladder.

    * ``auc``: the effect on the AUC of the frozen model, in words.
    * ``looks_at``: the inputs of its probability for a row: the score (the frozen model's logit), the item,
      its group, the user, the event time.
    * ``tunes``: the options of a fit that change its result and are tuned.
    * ``monotone``: its probability depends on the score alone and increases strictly with it where the slope
      is positive, so it cannot change the AUC; the self-test relies on it.
    * ``fits_link``: it estimates the slope a and the intercept b₀.
    * ``tracks_drift``: it may be chosen only where drift can be detected.
    * ``long_memory``: a refresh fits its offsets on more windows than its link.
    * ``forgets``: a refresh fits its effects on still more windows, with weights that fall with age.
    """

    name: str
    description: str
    auc: str
    looks_at: tuple[Input, ...] = ("score",)
    tunes: tuple[Option, ...] = ()
    monotone: bool = False
    fits_link: bool = False
    tracks_drift: bool = False
    long_memory: bool = False
    forgets: bool = False

    @property
    def needs_time(self) -> bool:
        """Return True when the rows must have an event time."""
        return "time" in self.looks_at

    @property
    def per_item(self) -> bool:
        """Return True when it corrects each item separately."""
        return "item" in self.looks_at

    @property
    def in_cells(self) -> bool:
        """Return True when it keeps a table of items × time bins, which may be too large."""
        return self.per_item and self.needs_time


SCORE_ITEM: tuple[Input, ...] = ("score", "item")
SCORE_TIME: tuple[Input, ...] = ("score", "time")
ALL: tuple[Input, ...] = ("score", "item", "time")

# In ladder order, from no correction to corrections that use an item's full history. Among equally good
# methods the first one is chosen.
METHODS: Mapping[str, Method] = {
    method.name: method
    for method in (
        Method(
            "base",
            "The frozen model as it is, σ(η).",
            "none: it is the AUC of the frozen model",
            monotone=True,
        ),
        Method(
            "platt",
            "A line in the logit, σ(a·η + b₀).",
            "none if a > 0 (self-tested); a < 0 reverses the order",
            monotone=True,
            fits_link=True,
        ),
        Method(
            "platt_eb",
            "Platt's line, shrunk towards that of the frozen model.",
            "none if a > 0 (self-tested); a < 0 reverses the order",
            monotone=True,
            fits_link=True,
            long_memory=True,
        ),
        Method(
            "temperature",
            "One temperature, σ(η/T).",
            "none (self-tested)",
            monotone=True,
            fits_link=True,
        ),
        Method(
            "isotonic",
            "The non-decreasing map of p that fits the labels best.",
            "small: ties scores, reverses none",
        ),
        Method(
            "histogram",
            "The label rate in each of 15 bins of p.",
            "ties all scores of a bin, reverses bins whose rates are out of order",
        ),
        Method(
            "platt_time",
            "Platt's line plus a trend in time, σ(a·η + c·t + b₀).",
            "reorders rows of different times",
            looks_at=SCORE_TIME,
            fits_link=True,
        ),
        Method(
            "rescal",
            "An offset per item with 50 rows or more, from its observed minus predicted rate.",
            "reorders rows of different items",
            looks_at=SCORE_ITEM,
        ),
        Method(
            "rescal_iso",
            "An isotonic map on top of rescal.",
            "reorders rows of different items, ties some",
            looks_at=SCORE_ITEM,
        ),
        Method(
            "naive",
            "Offsets per item and time bin without shrinkage.",
            "reorders rows of different items or time bins",
            looks_at=ALL,
            tunes=("time_bins",),
        ),
        Method(
            "ridge",
            "Penalised logistic offsets per item, iterated to convergence, then the link.",
            "reorders rows of different items",
            looks_at=SCORE_ITEM,
            tunes=("prior_var",),
            fits_link=True,
        ),
        Method(
            "slc",
            "One penalised step per item, bᵢ = Σ(y−p) / (1/σ² + Σp(1−p)), then the link σ(a·η + b₀ + bᵢ).",
            "reorders rows of different items",
            looks_at=SCORE_ITEM,
            tunes=("prior_var",),
            fits_link=True,
        ),
        Method(
            "slc_t",
            "slc plus a smoothed random walk per item.",
            "reorders rows of different items or time bins",
            looks_at=ALL,
            tunes=("prior_var", "time_bins"),
            fits_link=True,
            tracks_drift=True,
        ),
        Method(
            "slc_iso",
            "An isotonic map of σ(η + bᵢ), with the offsets of slc.",
            "reorders rows of different items, ties some",
            looks_at=SCORE_ITEM,
            tunes=("prior_var",),
        ),
        Method(
            "slc_eb",
            "Offsets around Platt's line, link and offsets to convergence, prior variance from the data.",
            "reorders rows of different items",
            looks_at=SCORE_ITEM,
            fits_link=True,
            long_memory=True,
        ),
        Method(
            "slc_mix",
            "slc_eb plus item slopes, group and (if named) user effects that improve held-out rows.",
            "reorders rows of different items, groups or users",
            looks_at=("score", "item", "group", "user"),
            fits_link=True,
            long_memory=True,
            forgets=True,
        ),
    )
}

FROZEN = "base"
"""The frozen model: the method name for "no champion"."""
PLATT = "platt"
"""The reference of comparisons for readers; no rule uses it."""
REFERENCES = (FROZEN, PLATT)
"""The references of every comparison: the frozen model and Platt scaling. They are always computed."""
FALLBACK = "platt_eb"
"""The method that serves where none beyond it is better. It is always computed and may always serve."""


def method_named(name: str) -> Method:
    """Return the entry of a method; raise :class:`SettingsError`, which lists the known names.

    >>> method_named("slcc")
    Traceback (most recent call last):
    ...
    slc_ops.base.errors.SettingsError: no method 'slcc'; the ladder has base, ...; did you mean 'slc'?
    """
    if name in METHODS:
        return METHODS[name]
    close = get_close_matches(name.lower().replace("-", "_"), METHODS, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    raise SettingsError(f"no method {name!r}; the ladder has {', '.join(METHODS)}{hint}")


def ladder(methods: Iterable[str]) -> tuple[str, ...]:
    """Return the methods to compare, in ladder order, with those that are always computed.

    >>> ladder(["slc"]), ladder("slc")
    (('base', 'platt', 'platt_eb', 'slc'), ('base', 'platt', 'platt_eb', 'slc'))
    """
    named = [methods] if isinstance(methods, str) else methods
    return _in_order([*named, *REFERENCES, FALLBACK])


def may_serve(listed: Iterable[str]) -> tuple[str, ...]:
    """Return the methods that may serve, in ladder order: the listed ones, the frozen model and platt_eb.

    >>> may_serve(["slc"]), may_serve(["platt"])
    (('base', 'platt_eb', 'slc'), ('base', 'platt', 'platt_eb'))
    """
    return _in_order([*listed, "base", FALLBACK])


def _in_order(names: Iterable[str]) -> tuple[str, ...]:
    """Return known names in ladder order; raise :class:`SettingsError` for others."""
    wanted = {method_named(name).name for name in names}
    return tuple(method for method in METHODS if method in wanted)


def score_only(name: str) -> bool:
    """Return True when a known method corrects no items; a name unknown to this release gives False."""
    return name in METHODS and not METHODS[name].per_item
