"""Counts of a corrector: rows, unknown ids, rows of another backbone; with warnings."""

import logging
import threading
from collections.abc import Mapping, Sequence
from typing import Any

_log = logging.getLogger(__name__)
ENOUGH = 20
"""Minimum rows for a warning on the share of unknown ids; a call of only unknown ids always warns."""
EXAMPLES = 5
Missed = tuple[int, Sequence[Any]]
"""Number of rows with unknown ids, and examples of these ids."""


class Counts:
    """Thread-safe counts. Each warning is logged once per parameter set."""

    def __init__(self, fitted_for: str | None = None, effects: Sequence[str] = ()) -> None:
        self._lock = threading.Lock()
        self._fitted_for = fitted_for
        self._rows = self._mismatched = 0
        self._unknown = dict.fromkeys(effects, 0)
        self._examples: dict[str, tuple[Any, ...]] = dict.fromkeys(effects, ())
        self._backbones: tuple[str, ...] = ()
        self._warned: set[str] = set()

    def add(self, rows: int, missed: Mapping[str, Missed]) -> None:
        """Add corrected rows, and the rows with unknown ids by effect; keep examples, but none of users."""
        with self._lock:
            self._rows += rows
            for name, (count, some) in missed.items():
                self._unknown[name] += count
                if name != "user" and len(known := self._examples[name]) < EXAMPLES:
                    self._examples[name] = tuple(dict.fromkeys((*known, *some)))[:EXAMPLES]
        for name, (count, _) in missed.items():
            if count and (self._mostly(name) or (rows > 1 and count == rows)):
                self._warn(f"unknown {name}", self._unknown_sentence(name))

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
        with self._lock:
            rows, mismatched, unknown = self._rows, self._mismatched, dict(self._unknown)
        warnings = [self._unknown_sentence(name) for name in unknown if self._mostly(name)]
        if mismatched:
            warnings.append(
                f"{mismatched} rows came from another backbone ({', '.join(self._backbones)}) than "
                f"{self._fitted_for}, for which the correction was fitted"
            )
        return {
            "rows": rows,
            "unknown": {
                name: {"rows": count, "examples": [str(each)[:80] for each in self._examples[name]]}
                for name, count in unknown.items()
            },
            "backbone_mismatch": {"rows": mismatched, "versions": list(self._backbones)},
            "warnings": warnings,
        }

    def _mostly(self, name: str) -> bool:
        return self._rows >= ENOUGH and 2 * self._unknown[name] > self._rows

    def _unknown_sentence(self, name: str) -> str:
        example = ", ".join(repr(each)[:80] for each in self._examples[name])
        if example:
            example = f", for example {example}"
        elif name != "user":
            example = f" (is the {name} id missing?)"
        return (
            f"{self._unknown[name]} of {self._rows} rows have {name} ids that the parameter set does not "
            f"contain{example}: they get no offset of their own; compare these ids with those of the log"
        )


def mismatch_sentence(fitted_for: str | None, asked: str, rule: str) -> str:
    """Return a sentence on the handling of rows of another backbone."""
    then = {
        "frozen": "they get the frozen probability",
        "serve": "they are corrected, by the deployment's rule",
        "refuse": "they are refused, by the deployment's rule",
    }[rule]
    return (
        f"the correction was fitted for the backbone {fitted_for!r}, rows came from {asked[:80]!r}: {then} "
        "(to correct them, refresh on logs of the new backbone)"
    )
