"""The verdict of a refresh: which method serves from now on, and whether its new parameters may.

Two decisions, apart: the method by the series of windows (:mod:`slc_ops.evidence.decision`), its parameters
by the sanity check of the renewal (:mod:`slc_ops.evidence.renewal`). What comes out is of one kind:

* ``change``: another method takes over, with parameters fitted up to the newest window;
* ``renewal``: the method that serves gets such parameters;
* ``retire``: no champion any more, the frozen model serves;
* ``none``: there is nothing to do.

``promote`` means that the version may become champion by the deployment's rules (``gate`` and ``renew``),
``hold`` that it may not, ``reject`` that the champion's method is to go and nothing comes in its place.
"""

from dataclasses import dataclass
from typing import Any, Literal

from slc_ops.base.methods import METHODS, method_named, score_only
from slc_ops.evidence.decision import FROZEN, MethodDecision, decide_method
from slc_ops.evidence.detectability import Detectability
from slc_ops.evidence.reasons import Reason, slice_reasons
from slc_ops.evidence.renewal import Renewal
from slc_ops.evidence.results import Backtest
from slc_ops.settings.deployments import Decision

Kind = Literal["change", "renewal", "retire", "none"]


@dataclass(frozen=True)
class Verdict:
    """What may happen, and why; ``method`` is that of the version to publish, None where there is none."""

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

    def as_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return dict(vars(self))

    @classmethod
    def from_dict(cls, value: dict[str, Any]) -> "Verdict":
        """Read what :meth:`as_dict` wrote."""
        return cls(**value)


def decide_on(
    backtest: Backtest, detectability: Detectability | None, rules: Decision, evidence_windows: int = 8
) -> MethodDecision:
    """The decision about the method from a backtest, whose champion says what serves."""
    return decide_method(
        backtest.entries,
        current_method(backtest),
        backtest.methods,
        rules,
        evidence_windows=evidence_windows,
        may_not=may_not(detectability),
    )


def may_not(detectability: Detectability | None) -> dict[str, str]:
    """Methods that may not be chosen, and why: those that track drift, where drift cannot be seen."""
    if detectability is not None and detectability.viable:
        return {}
    tracks = "drift cannot be seen on these data"
    return {name: tracks for name in METHODS if method_named(name).tracks_drift}


def current_method(backtest: Backtest) -> str:
    """What serves; a champion for another backbone corrects nothing of this one."""
    champion = backtest.champion
    return FROZEN if champion.method is None or champion.status == "other_backbone" else champion.method


def overtaken(backtest: Backtest) -> bool:
    """Whether the champion is of this window or a later one: a past window then decides nothing."""
    return backtest.champion.status == "saw_window"


def give_verdict(
    backtest: Backtest,
    decision: MethodDecision,
    renewal: Renewal | None,
    detectability: Detectability | None,
    rules: Decision,
) -> Verdict:
    """Both decisions in one verdict; ``renewal`` is the check of the decided method's new parameters."""
    method = None if decision.method == FROZEN else decision.method
    reasons = [*_about_champion(backtest), *decision.reasons]
    if method is not None and not score_only(method):
        reasons += slice_reasons(backtest.slice_differences.get(method, {}), rules)
    kind = _kind(decision, method)
    blocked = overtaken(backtest) or (renewal is not None and not renewal.accepted)
    if kind == "change":
        blocked = blocked or any(
            reason.code.startswith("slice:") and reason.says == "hold" for reason in reasons
        )
    outcome: Literal["promote", "hold", "reject"] = "hold" if blocked or kind == "none" else "promote"
    if kind == "retire" and not blocked:
        outcome = "reject"
    if renewal is not None:
        says: Literal["pass", "hold"] = "pass" if renewal.accepted else "hold"
        reasons.append(Reason("renewal", says, renewal.sentence))
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
        champion=vars(backtest.champion),
        temporal_tracking="unknown" if detectability is None else detectability.temporal_tracking,
        notes=backtest.notes,
        rules=rules.model_dump(mode="json"),
    )


def _kind(decision: MethodDecision, method: str | None) -> Kind:
    if method is None:
        return "retire" if decision.change else "none"
    return "change" if decision.change else "renewal"


def _about_champion(backtest: Backtest) -> list[Reason]:
    """What has to be said about a champion that is not simply there."""
    champion = backtest.champion
    if champion.status in ("absent", "scored"):
        return []
    says: Literal["hold", "note"] = "hold" if overtaken(backtest) else "note"
    return [Reason(f"champion_{champion.status}", says, champion.reason)]


def _sentence(
    backtest: Backtest, decision: MethodDecision, kind: Kind, blocked: bool, reasons: list[Reason]
) -> str:
    window, method = backtest.window, decision.method
    stopping = [reason.sentence for reason in reasons if reason.says == "hold"]
    why = next((reason.sentence for reason in decision.reasons if reason.says == "pass"), "")
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
