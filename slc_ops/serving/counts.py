"""Counts of a corrector: rows, unknown ids, rows of another backbone; with warnings."""

import logging
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

_log = logging.getLogger(__name__)
ENOUGH = 20
"""Minimum rows for a warning on the share of unknown ids; a call of only unknown ids always warns."""
EXAMPLES = 5
Missed = tuple[int, Sequence[Any]]
"""Number of rows with unknown ids, and examples of these ids."""
NOTHING: Mapping[str, Missed] = MappingProxyType({})


@dataclass(frozen=True)
class Totals:
    """Counts since the parameter set was loaded."""

    rows: int = 0
    unknown: Mapping[str, int] = field(default_factory=dict)
    """Effect → rows with an unknown or missing id."""
    examples: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    """The first few unknown ids; none of users, whose ids are personal data."""
    mismatched: int = 0
    backbones: tuple[str, ...] = ()
    """The first few backbone versions of callers that differ from the set's."""


class Counts:
    """Thread-safe counts. Each warning is logged once per parameter set."""

    def __init__(self, fitted_for: str | None = None, effects: Sequence[str] = ()) -> None:
        self._lock = threading.Lock()
        self._fitted_for = fitted_for
        self._rows = self._mismatched = 0
        self._unknown, self._examples = dict.fromkeys(effects, 0), dict[str, tuple[Any, ...]]()
        self._backbones: tuple[str, ...] = ()
        self._warned: set[str] = set()

    @property
    def totals(self) -> Totals:
        """The counts so far."""
        with self._lock:
            examples = {name: self._examples.get(name, ()) for name in self._unknown}
            return Totals(self._rows, dict(self._unknown), examples, self._mismatched, self._backbones)

    def add(self, rows: int, missed: Mapping[str, Missed] = NOTHING) -> None:
        """Add corrected rows, and the rows with unknown ids by effect."""
        with self._lock:
            self._rows += rows
            for name, (count, some) in missed.items():
                self._unknown[name] = self._unknown.get(name, 0) + count
                if name != "user" and len(known := self._examples.get(name, ())) < EXAMPLES:
                    self._examples[name] = tuple(dict.fromkeys((*known, *some)))[:EXAMPLES]
        if not missed:
            return
        now = self.totals
        for name, (count, _) in missed.items():
            if count and (_mostly(now, name) or (rows > 1 and count == rows)):
                self._warn(f"unknown {name}", _unknown_sentence(now, name))

    def mismatch(self, rows: int, asked: str, rule: str) -> None:
        """Add rows of another backbone than that of the fit."""
        with self._lock:
            self._mismatched += rows
            if asked not in self._backbones and len(self._backbones) < EXAMPLES:
                self._backbones = (*self._backbones, asked)
        self._warn(f"backbone {asked}", mismatch_sentence(self._fitted_for, asked, rule))

    def _warn(self, what: str, sentence: str) -> None:
        if what not in self._warned and len(self._warned) <= 2 * EXAMPLES:
            self._warned.add(what)
            _log.warning("%s", sentence)

    def as_dict(self) -> dict[str, Any]:
        """Return the counts and warnings for :meth:`Corrector.health`."""
        now = self.totals
        warnings = [_unknown_sentence(now, name) for name in now.unknown if _mostly(now, name)]
        if now.mismatched:
            warnings.append(
                f"{now.mismatched} rows came from another backbone ({', '.join(now.backbones)}) than "
                f"{self._fitted_for}, for which the correction was fitted"
            )
        return {
            "rows": now.rows,
            "unknown": {
                name: {"rows": rows, "examples": [str(each)[:80] for each in now.examples[name]]}
                for name, rows in now.unknown.items()
            },
            "backbone_mismatch": {"rows": now.mismatched, "versions": list(now.backbones)},
            "warnings": warnings,
        }


def mismatch_sentence(fitted_for: str | None, asked: str, rule: str) -> str:
    """Return a sentence on the handling of rows of another backbone."""
    then = {
        "frozen": "they get the frozen probability",
        "serve": "they are corrected nevertheless, by the deployment's rule",
        "refuse": "they are refused, by the deployment's rule",
    }[rule]
    return (
        f"the correction was fitted for the backbone {fitted_for!r}, rows came from {asked[:80]!r}: {then} "
        "(a refresh on logs of the new backbone leads out of it)"
    )


def _mostly(now: Totals, name: str) -> bool:
    return now.rows >= ENOUGH and 2 * now.unknown[name] > now.rows


def _unknown_sentence(now: Totals, name: str) -> str:
    shown = ", ".join(repr(each)[:80] for each in now.examples[name]) or f"none at all: is no {name} given?"
    example = "" if name == "user" else f", for example {shown}"
    return (
        f"{now.unknown[name]} of {now.rows} rows asked for {name}s that the parameter set does not know"
        f"{example}: they get no offset of their own; compare these ids with those of the log"
    )
