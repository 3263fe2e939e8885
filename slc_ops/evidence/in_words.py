"""The two decisions of a verdict in plain words, for report, page, terminal and registry.

They are made from the verdict's JSON form, so that a page can say them of a refresh that it only has files
of; a verdict of a release that knew no such decisions gives empty words.
"""

from collections.abc import Mapping
from typing import Any

from slc_ops.base.text import share, signed
from slc_ops.evidence.decision import FROZEN, IN_WORDS, PLATT, windows_in_words
from slc_ops.evidence.series import Statistic


def name_of(method: str) -> str:
    """A method for people, as what serves."""
    return IN_WORDS.get(method, method)


def method_in_words(verdict: Mapping[str, Any]) -> str:
    """Which method serves, and what the series of windows says for it."""
    decision = verdict.get("decision")
    if not decision:
        return ""
    current, method, kind = decision["current"], decision["method"], verdict.get("kind")
    if kind in ("change", "retire"):
        if verdict["verdict"] == "hold":
            first = f"{name_of(current)} goes on; that {name_of(method)} takes over is held."
        else:
            first = f"{name_of(method)} is to take over from {name_of(current)}."
    else:
        first = f"{name_of(method)} goes on serving."
    return _capital(" ".join(part for part in (first, evidence_in_words(verdict, method)) if part))


def evidence_in_words(verdict: Mapping[str, Any], method: str) -> str:
    """A method against Platt and the frozen model over the windows of the series, in one sentence."""
    about = method if method not in (FROZEN, PLATT) else PLATT
    found = [each for r in (PLATT, FROZEN) if (each := statistic_of(verdict, about, r)) is not None]
    if not found:
        return "No window compares it with another method."
    over = windows_in_words(found[0].windows, found[0].hold_out)
    parts = [
        f"{signed(each.mean)} against {name_of(each.reference)} "
        f"({share(each.confidence)} interval {signed(each.low)} to {signed(each.high)})"
        for each in found
    ]
    whose = "" if about == method else f" of {name_of(about)}"
    ahead = found[0]
    more = ""
    if ahead.next_low is not None:
        more = (
            f" The next window's difference from {name_of(ahead.reference)} is expected within "
            f"{signed(ahead.next_low)} to {signed(ahead.next_high)}."
        )
    return f"Over {over} the NLL{whose} was {' and '.join(parts)}; below 0 is better.{more}"


def parameters_in_words(verdict: Mapping[str, Any]) -> str:
    """Whether the parameters of the method that serves are renewed, and how far they moved."""
    if not verdict.get("decision"):
        return ""
    renewal = verdict.get("renewal")
    if renewal is not None:
        return _renewal_in_words(renewal)
    frozen = verdict["decision"]["method"] == FROZEN
    return "The frozen model has none." if frozen else "They stay as they are."


def _renewal_in_words(renewal: Mapping[str, Any]) -> str:
    found, limit = renewal["lengths"], renewal["limit"]
    if found is None:
        return f"{renewal['sentence'][0].upper()}{renewal['sentence'][1:]}."
    link, offsets = f"{found['link']:.3f}", f"{found['offsets']:.3f}"
    if limit is None:
        return (
            f"Fitted anew: the link moved by {link} logits, the offsets by {offsets}; past renewals are too "
            "few for limits yet."
        )
    moved = (
        f"the link moved by {link} logits (limit {limit['link']:.2f}), the offsets by {offsets} "
        f"(limit {limit['offsets']:.2f})"
    )
    if renewal["news"]:
        return (
            f"Fitted anew: {moved}. That is far for the second window in a row, so it is news, and accepted."
        )
    if renewal["accepted"]:
        return f"Fitted anew: {moved}, within what past renewals did."
    return (
        f"Held: {moved}, further than past renewals did. The parameters that serve stay, and the window is "
        "left out of later fits unless the next one moves as far."
    )


def statistic_of(verdict: Mapping[str, Any], method: str, reference: str) -> Statistic | None:
    """What a verdict's series says of one method against another; None where it says nothing."""
    found = (verdict.get("decision") or {}).get("statistics", {}).get(method, {}).get(reference)
    return None if found is None else Statistic.from_dict(found)


def _capital(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}" if text.startswith("the ") else text
