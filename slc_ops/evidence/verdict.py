"""Give the verdict of a refresh: the method that serves next, and the check of its new parameters.

The two decisions are separate: the series of windows decides the method (:mod:`slc_ops.evidence.decision`),
the renewal check its parameters (:mod:`slc_ops.evidence.renewal`). A verdict has one kind:

* ``change``: another method takes over, with parameters fitted up to the newest window;
* ``renewal``: the serving method gets such parameters;
* ``retire``: the champion is removed, the frozen model serves;
* ``none``: nothing changes.

``promote`` means that the version may become champion by the deployment's rules (``gate`` and ``renew``),
``hold`` that it may not, ``reject`` that the champion is removed without a successor.

The sentences for report, page, terminal and registry are built from the verdict's JSON form, so that they are
available for stored refreshes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from slc_ops.base.json_form import JsonForm
from slc_ops.base.methods import FALLBACK, FROZEN, METHODS, method_named, score_only
from slc_ops.base.text import share, signed
from slc_ops.evidence.decision import MethodDecision, decide_method
from slc_ops.evidence.reasons import IN_WORDS, Effect, Reason, windows_in_words
from slc_ops.evidence.series import Statistic

if TYPE_CHECKING:  # pages only describe stored verdicts
    from slc_ops.evidence.detectability import Detectability
    from slc_ops.evidence.renewal import Renewal
    from slc_ops.evidence.results import Backtest
    from slc_ops.evidence.uncertainty import PairedDifference
    from slc_ops.settings.blocks import Decision

Kind = Literal["change", "renewal", "retire", "none"]


@dataclass(frozen=True)
class Verdict(JsonForm):
    """The verdict and its reasons; ``method`` is that of the version to publish, or None."""

    verdict: Literal["promote", "hold", "reject"]
    kind: Kind
    method: str | None
    window: dict[str, str]
    sentence: str
    reasons: list[dict[str, Any]]
    decision: dict[str, Any]
    renewal: dict[str, Any] | None
    options: dict[str, Any]
    champion: dict[str, Any]
    temporal_tracking: str
    notes: list[str]
    rules: dict[str, Any]


def decide_on(
    backtest: "Backtest", detectability: "Detectability | None", rules: "Decision", evidence_windows: int = 8
) -> MethodDecision:
    """Decide the method from a backtest, whose champion is the current method."""
    return decide_method(
        backtest.entries,
        current_method(backtest),
        backtest.listed,
        rules,
        evidence_windows=evidence_windows,
        may_not=may_not(detectability),
        since=backtest.champion.since,
    )


def may_not(detectability: "Detectability | None") -> dict[str, str]:
    """Return the excluded methods with reasons: those that track drift, if drift is not detectable."""
    if detectability is not None and detectability.viable:
        return {}
    tracks = "drift is not detectable in these data"
    return {name: tracks for name in METHODS if method_named(name).tracks_drift}


def current_method(backtest: "Backtest") -> str:
    """Return the serving method; ``base`` without a champion or with one for another backbone."""
    champion = backtest.champion
    return FROZEN if champion.method is None or champion.status == "other_backbone" else champion.method


def overtaken(backtest: "Backtest") -> bool:
    """Return True if the champion was fitted on this window or a later one; the verdict is then "hold"."""
    return backtest.champion.status == "saw_window"


def give_verdict(
    backtest: "Backtest",
    decision: MethodDecision,
    renewal: "Renewal | None",
    detectability: "Detectability | None",
    rules: "Decision",
) -> Verdict:
    """Combine both decisions; ``renewal`` is the check of the decided method's new parameters."""
    method = None if decision.method == FROZEN else decision.method
    reasons = [*_about_champion(backtest), *decision.reasons]
    if method is not None and not score_only(method):
        reasons += slice_reasons(backtest.slice_differences.get(method, {}), rules)
    kind = _kind(decision, method)
    blocked = overtaken(backtest) or (renewal is not None and not renewal.accepted)
    if kind == "change":
        blocked = blocked or any(
            reason.code.startswith("slice:") and reason.effect == "hold" for reason in reasons
        )
    outcome: Literal["promote", "hold", "reject"] = "hold" if blocked or kind == "none" else "promote"
    if kind == "retire" and not blocked:
        outcome = "reject"
    if kind == "change" and (taken := backtest.champion.taken_back.get(decision.method)):
        reasons.append(Reason("taken_back", "note", taken))
    if renewal is not None:
        effect: Literal["pass", "hold"] = "pass" if renewal.accepted else "hold"
        reasons.append(Reason("renewal", effect, renewal.sentence))
    return Verdict(
        verdict=outcome,
        kind=kind,
        method=method,
        window=backtest.window.as_dict(),
        sentence=_sentence(backtest, decision, kind, blocked, reasons),
        reasons=[reason.as_dict() for reason in reasons],
        decision=decision.as_dict() | {"entries": [each.as_dict() for each in backtest.entries]},
        renewal=None if renewal is None else renewal.as_dict(),
        options={} if method is None else backtest.newest[method].options,
        champion=backtest.champion.as_dict(),
        temporal_tracking="unknown" if detectability is None else detectability.temporal_tracking,
        notes=backtest.notes,
        rules=rules.model_dump(mode="json"),
    )


def _kind(decision: MethodDecision, method: str | None) -> Kind:
    if method is None:
        return "retire" if decision.change else "none"
    return "change" if decision.change else "renewal"


def _about_champion(backtest: "Backtest") -> list[Reason]:
    """Return a reason about a champion that is neither absent nor scored."""
    champion = backtest.champion
    if champion.status in ("absent", "scored"):
        return []
    effect: Literal["hold", "note"] = "hold" if overtaken(backtest) else "note"
    return [Reason(f"champion_{champion.status}", effect, champion.reason)]


def _sentence(
    backtest: "Backtest", decision: MethodDecision, kind: Kind, blocked: bool, reasons: list[Reason]
) -> str:
    window, method = backtest.window, decision.method
    stopping = [reason.sentence for reason in reasons if reason.effect == "hold"]
    why = next((reason.sentence for reason in decision.reasons if reason.effect == "pass"), "")
    if blocked and stopping:
        return f"Hold after {window}: {stopping[0]}."
    if kind == "change":
        return f"Promote {method} after {window}: {why}."
    if kind == "renewal":
        return f"Renew {method} with {window}; the method stays."
    if kind == "retire":
        return f"Retire {decision.current} after {window}, the frozen model serves: {why}."
    stays = decision.reasons[-1].sentence if decision.reasons else "no method is better"
    return f"Nothing to promote after {window}, the frozen model serves: {stays}."


def slice_reasons(found: dict[str, "PairedDifference"], rules: "Decision") -> list[Reason]:
    """Return the slices with a clearly worse NLL than Platt; they block if the deployment sets a limit.

    The intervals are simultaneous: the slices together block a candidate equal to Platt no more often than
    one slice would.
    """
    limit = rules.max_slice_nll_loss
    reasons = []
    for name, difference in found.items():
        low = difference.nll.low
        if low is not None and low > (limit or 0.0):
            where = slice_in_words(name)
            text = (
                f"on {where} its probabilities are worse than Platt's: NLL {difference.nll.text()}, "
                f"a {share(difference.confidence)} interval, simultaneous over "
                f"{difference.n_simultaneous} slices"
            )
            effect: Effect = "note" if limit is None else "hold"
            found_nll = difference.nll.estimate, low, difference.nll.high
            reasons.append(Reason(f"slice:{name}", effect, text, *found_nll, limit or 0.0))
    return reasons


def slice_in_words(name: str) -> str:
    """Return a slice's key in words.

    >>> slice_in_words("density:sparse"), slice_in_words("cold_start:cold_start"), slice_in_words("group:a:b")
    ('sparse items', 'cold-start items', 'group a:b')
    """
    kind, _, rest = name.partition(":")
    return {"density": f"{rest} items", "cold_start": "cold-start items"}.get(kind, f"{kind} {rest}")


def name_of(method: str) -> str:
    """Return the display name of a serving method."""
    return IN_WORDS.get(method, method)


def method_in_words(verdict: Mapping[str, Any], *, happened: bool = False) -> str:
    """Describe the serving method and its evidence; empty for a verdict without a decision.

    ``happened`` means that the change has been made since the verdict.
    """
    decision = verdict.get("decision")
    if not decision:
        return ""
    current, method, kind = decision["current"], decision["method"], verdict.get("kind")
    if kind in ("change", "retire"):
        if verdict["verdict"] == "hold":
            first = f"{name_of(current)} keeps serving; the change to {name_of(method)} is on hold."
        else:
            takes = "took over" if happened else "should take over"
            first = f"{name_of(method)} {takes} from {name_of(current)}."
    else:
        first = f"{name_of(method)} keeps serving."
    parts = (first, evidence_in_words(verdict, method), served_in_words(verdict))
    return _capital(" ".join(part for part in parts if part))


def served_in_words(verdict: Mapping[str, Any]) -> str:
    """Compare the serving method with the frozen model over the windows that it has served, in words."""
    found = since_start_of(verdict)
    if found is None:
        return ""
    return (
        f"Over {windows_in_words(found.windows)} that {name_of(found.method)} served, its NLL "
        f"differed by {signed(found.mean)} from {name_of(FROZEN)} "
        f"({share(found.confidence)} interval {signed(found.low)} to {signed(found.high)})."
    )


def evidence_in_words(verdict: Mapping[str, Any], method: str) -> str:
    """Compare a method with platt_eb and the frozen model over the series, in words."""
    about = FALLBACK if method == FROZEN else method
    found = [each for r in (FALLBACK, FROZEN) if (each := statistic_of(verdict, about, r)) is not None]
    if not found:
        return "No window compares it with another method."
    over = windows_in_words(found[0].windows, found[0].hold_out)
    parts = [
        f"{signed(each.mean)} from {name_of(each.reference)} "
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
    return f"Over {over} the NLL{whose} differed by {' and '.join(parts)}; below 0 is better.{more}"


def parameters_in_words(verdict: Mapping[str, Any]) -> str:
    """Describe the renewal of the parameters and its size; empty for a verdict without a decision."""
    if not verdict.get("decision"):
        return ""
    renewal = verdict.get("renewal")
    if renewal is not None:
        return f"{_capital(renewal['sentence'])}."
    frozen = verdict["decision"]["method"] == FROZEN
    return "The frozen model has none." if frozen else "They are unchanged."


def statistic_of(verdict: Mapping[str, Any], method: str, reference: str) -> Statistic | None:
    """Return a verdict's statistic of one method against another; None if it has none."""
    found = (verdict.get("decision") or {}).get("statistics", {}).get(method, {}).get(reference)
    return None if found is None else Statistic.from_dict(found)


def since_start_of(verdict: Mapping[str, Any]) -> Statistic | None:
    """Return a verdict's statistic of the serving method since it began to serve; None if it has none."""
    found = (verdict.get("decision") or {}).get("since_start")
    return None if found is None else Statistic.from_dict(found)


def _capital(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}" if text.startswith(("the ", "an ")) else text
