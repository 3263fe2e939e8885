"""What a corrector was asked: rows, unknown items, rows of another backbone; and when that is alarming."""

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_log = logging.getLogger(__name__)
ENOUGH = 20
"""Rows after which the share of unknown items means something; a call of only unknown items always does."""
EXAMPLES = 5


@dataclass(frozen=True)
class Totals:
    """Counts since the parameter set was loaded."""

    rows: int = 0
    unknown: int = 0
    mismatched: int = 0
    examples: tuple[Any, ...] = ()
    """Ids that the set does not know, the first few."""
    backbones: tuple[str, ...] = ()
    """Versions that callers named and that are not the set's, the first few."""


class Counts:
    """Counts that any number of threads add to. Warnings go to the log once for each parameter set."""

    def __init__(self, fitted_for: str | None = None) -> None:
        self._lock = threading.Lock()
        self._fitted_for = fitted_for
        self._totals = Totals()
        self._warned: set[str] = set()

    @property
    def totals(self) -> Totals:
        """What was counted so far."""
        return self._totals

    def add(self, rows: int, unknown: Sequence[Any] = (), n_unknown: int | None = None) -> None:
        """Rows that were corrected; ``unknown`` are some or all ids among them that the set does not know."""
        missed = len(unknown) if n_unknown is None else n_unknown
        with self._lock:
            now = self._totals
            examples = now.examples
            if missed and len(examples) < EXAMPLES:
                examples = tuple(dict.fromkeys((*examples, *unknown)))[:EXAMPLES]
            self._totals = now = Totals(
                now.rows + rows, now.unknown + missed, now.mismatched, examples, now.backbones
            )
        if missed and (_mostly(now) or (rows > 1 and missed == rows)):
            self._warn("unknown", _unknown_sentence(now))

    def mismatch(self, rows: int, asked: str, rule: str) -> None:
        """Rows of another backbone than the set was fitted for."""
        with self._lock:
            now = self._totals
            known = now.backbones
            if asked not in known and len(known) < EXAMPLES:
                known = (*known, asked)
            self._totals = Totals(now.rows, now.unknown, now.mismatched + rows, now.examples, known)
        self._warn(f"backbone {asked}", mismatch_sentence(self._fitted_for, asked, rule))

    def _warn(self, what: str, sentence: str) -> None:
        if what not in self._warned and len(self._warned) <= 2 * EXAMPLES:
            self._warned.add(what)
            _log.warning("%s", sentence)

    def as_dict(self) -> dict[str, Any]:
        """For :meth:`Corrector.health`."""
        now = self._totals
        warnings = []
        if _mostly(now):
            warnings.append(_unknown_sentence(now))
        if now.mismatched:
            warnings.append(
                f"{now.mismatched} rows came from another backbone ({', '.join(now.backbones)}) than "
                f"{self._fitted_for}, for which the correction was fitted"
            )
        return {
            "rows": now.rows,
            "unknown_items": {"rows": now.unknown, "examples": [str(each)[:80] for each in now.examples]},
            "backbone_mismatch": {"rows": now.mismatched, "versions": list(now.backbones)},
            "warnings": warnings,
        }


def mismatch_sentence(fitted_for: str | None, asked: str, rule: str) -> str:
    """What happens to rows of another backbone, in words."""
    then = {
        "frozen": "they get the frozen probability",
        "serve": "they are corrected nevertheless, by the deployment's rule",
        "refuse": "they are refused, by the deployment's rule",
    }[rule]
    return (
        f"the correction was fitted for the backbone {fitted_for!r}, rows came from {asked[:80]!r}: {then} "
        "(a refresh on logs of the new backbone leads out of it)"
    )


def _mostly(now: Totals) -> bool:
    return now.rows >= ENOUGH and 2 * now.unknown > now.rows


def _unknown_sentence(now: Totals) -> str:
    shown = ", ".join(repr(each)[:80] for each in now.examples)
    return (
        f"{now.unknown} of {now.rows} rows asked for items that the parameter set does not know, for example "
        f"{shown}: they get no offset of their own; compare these ids with those of the log"
    )
