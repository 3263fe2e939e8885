"""The gate: decide if a published version may become champion now, and summarise it for an approver."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from slc_ops.base.errors import PromotionRefused
from slc_ops.base.files import read_json
from slc_ops.base.text import MISSING, interval
from slc_ops.refresh.evidence import read_verdict
from slc_ops.refresh.observed import observed
from slc_ops.refresh.plan import Plan
from slc_ops.refresh.versions import version_of
from slc_ops.settings.deployments import Deployment
from slc_ops.settings.environment import Installation

if TYPE_CHECKING:
    from slc_ops.registry import Registry
    from slc_ops.registry.rules import Against


ACTOR = "refresh"


@dataclass(frozen=True)
class Proposal:
    """The change of the champion that a refresh proposes; ``hold`` is the reason against it, or None."""

    deployment: str
    version: int | None
    verdict: dict[str, Any]
    hold: str | None
    is_champion: bool = False
    """True if it is already the champion; promoting it again only repairs the alias."""
    against: "Against" = "none"
    """The champion of the comparison; a renewal of the same method by this refresh is not another one."""


def rule_of(settings: Deployment, kind: str) -> str:
    """Return ``auto``, ``manual`` or ``never``; renewals have their own rule below the gate.

    >>> from slc_ops.settings.sources import LakeSource
    >>> asks = Deployment(source=LakeSource(path="lake"), gate="manual")
    >>> rule_of(asks, "change"), rule_of(asks, "renewal")
    ('manual', 'auto')
    """
    if kind == "renewal" and settings.renew == "auto" and settings.gate == "manual":
        return "auto"
    return settings.gate


def propose(installation: Installation, plan: Plan, gate: str, *, backfill: bool = False) -> Proposal:
    """Return a proposal from verdict, gate and ledger; nothing is changed.

    Default deny: a change that the verdict does not request, a window older than the champion's, and all
    results of a backfill are held. ``gate`` is ``auto``, ``manual`` or ``never``.
    """
    from slc_ops.registry import Registry
    from slc_ops.registry.rules import NO_CHAMPION

    verdict, name = read_verdict(plan), plan.deployment
    decided, meanwhile = version_of(plan.files), version_of(plan.files, "renewal")
    number = None if verdict["kind"] == "retire" or decided is None else decided.number
    if number is None and verdict["kind"] != "retire":
        return Proposal(name, None, verdict, f"nothing was registered: {verdict['sentence']}")
    registry = Registry.open(installation)
    champion, compared = registry.champion(name), verdict["champion"]["version"]
    is_champion = champion is not None and champion.number == number
    if meanwhile is not None and champion is not None and champion.number == meanwhile.number:
        compared = meanwhile.number
    hold = None
    if verdict["verdict"] == "hold":
        hold = verdict["sentence"]
    elif backfill:
        hold = "a backfill moves no champion"
    elif gate == "never":
        hold = f"the gate of {name} is 'never'; promote by hand with slc_promote"
    elif is_champion:
        hold = "it is the champion already"
    elif number is None and champion is None:
        hold = "there is no champion already"
    else:
        hold = _refused(registry, plan, number, verdict, automatic=gate != "manual")
    against: Against = NO_CHAMPION if compared is None else int(compared)
    return Proposal(name, number, verdict, hold, is_champion, against)


def _refused(
    registry: "Registry", plan: Plan, number: int | None, verdict: dict[str, Any], *, automatic: bool
) -> str | None:
    """Return the reason why the ledger's rules refuse a promotion (of None: a retirement), or None."""
    from slc_ops.registry.rules import check_after_people, check_promotion

    champion, line = registry.champion(plan.deployment), registry.history(plan.deployment)
    try:
        if number is not None:
            candidate, said = registry.ledger.version(plan.deployment, number), verdict["verdict"]
            check_promotion(candidate, champion, line, override=None, automatic=automatic, verdict=said)
        elif automatic:
            check_after_people("the retirement", plan.window, line)
    except PromotionRefused as refusal:
        return str(refusal)
    return None


def promote(installation: Installation, proposal: Proposal, *, actor: str, automatic: bool) -> str:
    """Carry out the proposal and return a sentence on it.

    Raises:
        PromotionRefused: The proposal is held, or a rule forbids it.
        PromotionConflict: The champion is not that of the evidence any more.
    """
    from slc_ops.registry import Registry
    from slc_ops.registry.publication import PROMOTION, RENEWAL

    name = proposal.deployment
    if proposal.hold is not None and not proposal.is_champion:
        raise PromotionRefused(f"{name}: not promoted: {proposal.hold}")
    registry = Registry.open(installation)
    verdict = proposal.verdict
    move: dict[str, Any] = {
        "actor": actor, "reason": verdict["sentence"], "evidence": verdict, "automatic": automatic,
        "against": proposal.against,
    }  # fmt: skip
    if proposal.version is None:
        registry.retire(name, **move)
        return f"{name} has no champion any more; the frozen model serves"
    renewal = verdict["kind"] == "renewal"
    registry.promote(name, proposal.version, **move, kind=RENEWAL if renewal else PROMOTION)
    how = f", a renewal of {verdict['method']}" if renewal else ""
    return f"version {proposal.version} is the champion of {name}{how}"


def renew_meanwhile(installation: Installation, plan: Plan, *, actor: str) -> str | None:
    """Renew the serving method if no person is required; return a sentence, or None if nothing is due.

    This is a renewal (``renew: auto``) under a manual gate, or the renewal of the serving method while a
    change of method is held or waits.
    """
    from slc_ops.registry import Registry
    from slc_ops.registry.publication import RENEWAL

    settings, verdict = installation.deployment(plan.deployment), read_verdict(plan)
    if rule_of(settings, "renewal") != "auto":
        return None
    if verdict["kind"] == "renewal":
        proposal = propose(installation, plan, "auto")
        if settings.gate == "auto" or proposal.hold is not None:
            return None
        return promote(installation, proposal, actor=actor, automatic=True)
    renewed, compared = version_of(plan.files, "renewal"), verdict["champion"]["version"]
    registry = Registry.open(installation)
    champion = registry.champion(plan.deployment)
    if renewed is None or compared is None or champion is None or champion.number == renewed.number:
        return None
    own = {**verdict, "verdict": "promote", "kind": "renewal"}
    if _refused(registry, plan, renewed.number, own, automatic=True) is not None:
        return None
    registry.promote(
        plan.deployment,
        renewed.number,
        actor=actor,
        reason=f"Renew {champion.method} with {plan.window}; {verdict['sentence']} (held so far)",
        evidence=own,
        automatic=True,
        against=int(compared),
        kind=RENEWAL,
    )
    return f"version {renewed.number} renews {champion.method}, while another decision waits"


@observed
def promote_if_allowed(installation: Installation, plan: Plan) -> str:
    """Run the step ``promote``, if verdict, rules and ledger allow it; return a sentence."""
    settings = installation.deployment(plan.deployment)
    meanwhile = renew_meanwhile(installation, plan, actor=ACTOR)
    kind = read_verdict(plan)["kind"]
    if meanwhile is not None and kind == "renewal":
        return meanwhile
    gate = rule_of(settings, kind)
    proposal = propose(installation, plan, gate)
    version = proposal.version
    before = "" if meanwhile is None else f"{meanwhile}; "
    if proposal.hold is not None and not (proposal.is_champion and gate == "auto"):
        return f"{before}version {version} is not promoted: {proposal.hold}" if version else proposal.hold
    if gate != "auto":
        what = f"version {version}" if version else "the retirement"
        return f"{before}{what} waits: the gate of {plan.deployment} is {gate}"
    return promote(installation, proposal, actor=ACTOR, automatic=True)


def evidence_text(plan: Plan, proposal: Proposal) -> str:
    """Return the evidence for an approver, in Markdown."""
    from slc_ops.evidence.metrics import paired_metrics

    verdict = proposal.verdict
    metrics = paired_metrics()
    better = " and ".join(f"{each.title} {'above' if each.better > 0 else 'below'} 0" for each in metrics)
    cells = {
        name: [
            interval(**found[metric.name], form=metric.signed) if metric.name in found else MISSING
            for metric in metrics
        ]
        for name, found in read_json(plan.files.backtest)["differences"]
        .get(verdict["method"] or "", {})
        .items()
    }
    validation = plan.newest.validation
    what = (
        f"Version {proposal.version} of `{plan.deployment}`: `{verdict['method']}`, window {plan.window}."
        if proposal.version
        else f"`{plan.deployment}` would have no champion: the frozen model serves."
    )
    lines = [
        f"**{verdict['sentence']}**",
        "",
        what,
        "",
        f"| on the newest window, against | {' | '.join(metric.title for metric in metrics)} |",
        "|---" * (1 + len(metrics)) + "|",
        *(f"| {name} | {' | '.join(row)} |" for name, row in cells.items()),
        "",
        f"Differences with their intervals: {better} are better.",
        "",
        *_listed("Reasons", [reason["sentence"] for reason in verdict["reasons"]]),
        *_listed("Notes", verdict["notes"]),
        f"Validation: {validation['status']}, {validation['rows']} rows, "
        f"{validation['quarantined']} quarantined. "
        f"Tracking over time: {verdict['temporal_tracking']}.",
    ]
    return "\n".join(lines)


def _listed(title: str, sentences: list[str]) -> Iterator[str]:
    if sentences:
        yield f"{title}:"
        yield ""
        yield from (f"- {sentence}" for sentence in sentences)
        yield ""
