"""The gate: whether a published version may become champion now, and what an approver should read."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from slc_ops.base.errors import PromotionRefused
from slc_ops.base.files import read_json
from slc_ops.base.text import MISSING, interval
from slc_ops.observability.steps import observed
from slc_ops.refresh.plan import Plan
from slc_ops.refresh.publishing import published_version
from slc_ops.settings.deployments import Places

if TYPE_CHECKING:
    from slc_ops.registry.rules import Against


ACTOR = "refresh"


@dataclass(frozen=True)
class Proposal:
    """A refresh's candidate for champion; ``hold`` says why it is not one at present."""

    deployment: str
    version: int | None
    verdict: dict[str, Any]
    hold: str | None
    is_champion: bool = False
    """It is the champion already; promoting it again only repairs the alias."""

    @property
    def against(self) -> "Against":
        """The champion that the evidence was measured against, or that there was none."""
        from slc_ops.registry.rules import NO_CHAMPION

        found = self.verdict["confirmation"]["champion"]["version"]
        return NO_CHAMPION if found is None else int(found)


def propose(places: Places, plan: Plan, gate: str, *, backfill: bool = False) -> Proposal:
    """Look at verdict, gate and ledger; nothing is changed.

    Default deny: what is not a published version with the verdict ``promote`` of a window at least as new as
    the champion's is held, and so is everything that a backfill made.
    """
    from slc_ops.registry import Registry
    from slc_ops.registry.rules import check_promotion

    verdict = read_json(plan.files.verdict)
    number = published_version(plan)
    if number is None:
        return Proposal(plan.deployment, None, verdict, f"nothing was registered: {verdict['sentence']}")
    registry = Registry.open(places)
    champion = registry.champion(plan.deployment)
    is_champion = champion is not None and champion.number == number
    hold = None
    if verdict["verdict"] != "promote":
        hold = verdict["sentence"]
    elif backfill:
        hold = "a backfill moves no champion"
    elif gate == "never":
        hold = f"the gate of {plan.deployment} is 'never'; promote by hand with slc_promote"
    elif is_champion:
        hold = "it is the champion already"
    else:
        candidate = registry.ledger.version(plan.deployment, number)
        try:
            check_promotion(
                candidate,
                champion,
                registry.history(plan.deployment),
                override=None,
                automatic=gate != "manual",
                verdict=verdict["verdict"],
            )
        except PromotionRefused as refusal:
            hold = str(refusal)
    return Proposal(plan.deployment, number, verdict, hold, is_champion)


def promote(places: Places, proposal: Proposal, *, actor: str, automatic: bool) -> str:
    """Make the proposed version the champion, unless the champion is another than the evidence was about."""
    from slc_ops.registry import Registry

    if proposal.version is None or (proposal.hold is not None and not proposal.is_champion):
        raise PromotionRefused(f"{proposal.deployment}: not promoted: {proposal.hold}")
    Registry.open(places).promote(
        proposal.deployment,
        proposal.version,
        actor=actor,
        reason=proposal.verdict["sentence"],
        evidence=proposal.verdict,
        automatic=automatic,
        against=proposal.against,
    )
    return f"version {proposal.version} is the champion of {proposal.deployment}"


@observed
def promote_if_allowed(places: Places, plan: Plan) -> str:
    """The step ``promote``: where verdict, gate and ledger allow it; says what was done."""
    gate = places.deployment(plan.deployment).gate
    proposal = propose(places, plan, gate)
    version = proposal.version
    if proposal.hold is not None and not (proposal.is_champion and gate == "auto"):
        return f"version {version} is not promoted: {proposal.hold}" if version else proposal.hold
    if gate != "auto":
        return f"version {version} waits: the gate of {plan.deployment} is {gate}"
    return promote(places, proposal, actor=ACTOR, automatic=True)


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
        for name, found in verdict["confirmation"]["against"].items()
    }
    validation = plan.newest.validation
    lines = [
        f"**{verdict['sentence']}**",
        "",
        f"Version {proposal.version} of `{plan.deployment}`: `{verdict['method']}`, window {plan.window}.",
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
