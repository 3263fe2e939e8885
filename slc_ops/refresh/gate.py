"""The gate: whether a published version may become champion now, and what an approver should read."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from slc_ops.base.errors import PromotionRefused
from slc_ops.base.files import read_json
from slc_ops.base.text import MISSING, interval
from slc_ops.refresh.observed import observed
from slc_ops.refresh.plan import Plan
from slc_ops.refresh.versions import version_of
from slc_ops.settings.deployments import Deployment, Installation

if TYPE_CHECKING:
    from slc_ops.registry import Registry
    from slc_ops.registry.publication import Version
    from slc_ops.registry.rules import Against


ACTOR = "refresh"


@dataclass(frozen=True)
class Proposal:
    """What a refresh wants done about the champion; ``hold`` says why it is not done at present."""

    deployment: str
    version: int | None
    verdict: dict[str, Any]
    hold: str | None
    is_champion: bool = False
    """It is the champion already; promoting it again only repairs the alias."""
    renewed: int | None = None
    """The version of this refresh that renewed the serving method meanwhile, if it is the champion."""

    @property
    def kind(self) -> str:
        """``change``, ``renewal``, ``retire`` or ``none``."""
        return str(self.verdict["kind"])

    @property
    def against(self) -> "Against":
        """The champion that the evidence was measured against, or that there was none.

        A change of method is about methods: the same method's renewal by this very refresh is no other
        champion.
        """
        from slc_ops.registry.rules import NO_CHAMPION

        found = self.renewed or self.verdict["champion"]["version"]
        return NO_CHAMPION if found is None else int(found)


def rule_of(settings: Deployment, kind: str) -> str:
    """Who decides: ``auto``, ``manual`` or ``never``; renewals have a rule of their own below the gate.

    >>> from slc_ops.settings.deployments import LakeSource
    >>> asks = Deployment(source=LakeSource(path="lake"), gate="manual")
    >>> rule_of(asks, "change"), rule_of(asks, "renewal")
    ('manual', 'auto')
    """
    if kind == "renewal" and settings.renew == "auto" and settings.gate == "manual":
        return "auto"
    return settings.gate


def read_verdict(plan: Plan) -> dict[str, Any]:
    """The refresh's verdict."""
    verdict: dict[str, Any] = read_json(plan.files.verdict)
    return verdict


def propose(installation: Installation, plan: Plan, gate: str, *, backfill: bool = False) -> Proposal:
    """Look at verdict, gate and ledger; nothing is changed.

    Default deny: what the verdict does not call for, what is of a window older than the champion's, and
    everything that a backfill made is held.
    """
    from slc_ops.registry import Registry

    verdict = read_verdict(plan)
    decided = version_of(plan.files)
    number = None if verdict["kind"] == "retire" or decided is None else decided.number
    if number is None and verdict["kind"] != "retire":
        return Proposal(plan.deployment, None, verdict, f"nothing was registered: {verdict['sentence']}")
    registry = Registry.open(installation)
    champion = registry.champion(plan.deployment)
    is_champion = champion is not None and champion.number == number
    meanwhile = version_of(plan.files, "renewal")
    renewed = None
    if meanwhile is not None and champion is not None and champion.number == meanwhile.number:
        renewed = meanwhile.number
    hold = None
    if verdict["verdict"] == "hold":
        hold = verdict["sentence"]
    elif backfill:
        hold = "a backfill moves no champion"
    elif gate == "never":
        hold = f"the gate of {plan.deployment} is 'never'; promote by hand with slc_promote"
    elif is_champion:
        hold = "it is the champion already"
    elif number is None:
        hold = "there is no champion already" if champion is None else None
        if hold is None and gate != "manual":
            hold = _too_old(registry, plan)
    else:
        hold = _refused(registry, plan.deployment, number, champion, verdict, automatic=gate != "manual")
    return Proposal(plan.deployment, number, verdict, hold, is_champion, renewed)


def _too_old(registry: "Registry", plan: Plan) -> str | None:
    """Why a rule may not retire the champion by this window, if it may not."""
    from slc_ops.registry.rules import check_after_people

    try:
        check_after_people("the retirement", plan.window, registry.history(plan.deployment))
    except PromotionRefused as refusal:
        return str(refusal)
    return None


def _refused(
    registry: "Registry",
    deployment: str,
    number: int,
    champion: "Version | None",
    verdict: dict[str, Any],
    *,
    automatic: bool,
) -> str | None:
    """Why the ledger's rules refuse a promotion, if they do."""
    from slc_ops.registry.rules import check_promotion

    try:
        check_promotion(
            registry.ledger.version(deployment, number),
            champion,
            registry.history(deployment),
            override=None,
            automatic=automatic,
            verdict=verdict["verdict"],
        )
    except PromotionRefused as refusal:
        return str(refusal)
    return None


def promote(installation: Installation, proposal: Proposal, *, actor: str, automatic: bool) -> str:
    """Do what is proposed, unless the champion is another than the evidence was about."""
    from slc_ops.registry import Registry
    from slc_ops.registry.publication import PROMOTION, RENEWAL

    name = proposal.deployment
    if proposal.hold is not None and not proposal.is_champion:
        raise PromotionRefused(f"{name}: not promoted: {proposal.hold}")
    registry = Registry.open(installation)
    reason, evidence = proposal.verdict["sentence"], proposal.verdict
    if proposal.version is None:
        against = proposal.against
        served = against if isinstance(against, int) else None
        registry.retire(
            name, actor=actor, reason=reason, evidence=evidence, automatic=automatic, against=served
        )
        return f"{name} has no champion any more; the frozen model serves"
    renewal = proposal.kind == "renewal"
    registry.promote(
        name,
        proposal.version,
        actor=actor,
        reason=reason,
        evidence=evidence,
        automatic=automatic,
        against=proposal.against,
        kind=RENEWAL if renewal else PROMOTION,
    )
    how = f", a renewal of {proposal.verdict['method']}" if renewal else ""
    return f"version {proposal.version} is the champion of {name}{how}"


def renew_meanwhile(installation: Installation, plan: Plan, *, actor: str) -> str | None:
    """Renew the method that serves where that needs no person; says what was done, None where nothing is due.

    That is a renewal (``renew: auto``) although the gate asks a person, or, while a change of method is held
    or waits, the renewal of the method that serves.
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
    if _refused(registry, plan.deployment, renewed.number, champion, own, automatic=True) is not None:
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
    """The step ``promote``: where verdict, rules and ledger allow it; says what was done."""
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
    """The evidence for a person who is asked to approve, in Markdown."""
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
