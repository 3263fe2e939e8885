"""The gate between a published version and the champion: ``auto``, ``manual`` or ``never``."""

from datetime import timedelta
from typing import Any

from airflow.sdk import task
from airflow.sdk.exceptions import AirflowSkipException

from slc_ops.airflow.approval import Approval, approver, tell_approval, tell_held
from slc_ops.airflow.assets import both, champion_asset, tell_of
from slc_ops.airflow.messages import as_markdown, notify, version_links
from slc_ops.airflow.retries import PROMOTION_POOL
from slc_ops.airflow.runs import is_backfill, planned
from slc_ops.airflow.users import strangers_in_words
from slc_ops.refresh.plan import Plan
from slc_ops.settings.deployments import Deployment
from slc_ops.settings.environment import Installation

UNLESS_ALL_SKIPPED = "none_failed_min_one_success"
"""Trigger rule: a skipped renewal does not skip the gate, a skipped refresh does."""
AUTOMATIC = "slc_weekly_refresh"
"""The actor of automatic promotions in the ledger."""


@task
def propose(deployment: str, refresh: str, gate: str) -> str:
    """Hold a candidate that may not be promoted; for others, compile the evidence."""
    from slc_ops.refresh.gate import evidence_text
    from slc_ops.refresh.gate import propose as proposal_of

    installation = Installation.from_environment()
    plan = planned(installation, deployment, refresh)
    proposal = proposal_of(installation, plan, gate, backfill=is_backfill())
    if proposal.hold is not None:
        # A rejection is notified by decide; with the gate "never" there is no approval.
        silent = proposal.verdict.get("verdict") == "reject" or gate == "never"
        if not (silent or proposal.is_champion or is_backfill()):
            tell_held(installation, plan, proposal.version, proposal.hold)
        raise AirflowSkipException(f"held: {proposal.hold}")
    if gate == "manual":
        tell_approval(installation, plan, proposal.version, proposal.verdict["sentence"])
    if proposal.version is None:
        return evidence_text(plan, proposal)
    links = version_links(deployment, proposal.version, plan.window)
    text = f"{evidence_text(plan, proposal)}\n\nOpen: {as_markdown(links)}"
    stranger = strangers_in_words(installation.deployment(deployment).approvers)
    return text if stranger is None else f"{text}\n\n{stranger}"


def _tell_change(installation: Installation, plan: Plan, version: int | None, said: str) -> None:
    """Announce a new method or a retirement; a renewal of the serving method is not announced."""
    from slc_ops.registry import Registry

    last = Registry.open(installation).history(plan.deployment)[-1:]
    event = {"promotion": "promotion", "retirement": "retired"}.get(last[0].kind) if last else None
    if event is None or (event == "promotion" and last[0].window != plan.window):
        return
    notify(event, plan.deployment, f"{said}: {last[0].reason}", plan.window, version)


@task
def renew(deployment: str, refresh: str) -> str:
    """Renew the serving method if that needs no approval; another method waits for the gate."""
    from slc_ops.refresh.gate import renew_meanwhile

    installation = Installation.from_environment()
    plan = planned(installation, deployment, refresh)
    said = None if is_backfill() else renew_meanwhile(installation, plan, actor=AUTOMATIC)
    if said is None:
        raise AirflowSkipException("nothing to renew without a person")
    tell_of(both(champion_asset, deployment), str(plan.window))
    return said


@task
def promote(deployment: str, refresh: str, gate: str, answer: Any = None) -> str:
    """Make the version the champion: first in the ledger by compare-and-set, then by MLflow's alias."""
    from slc_ops.refresh.gate import promote as move
    from slc_ops.refresh.gate import propose as proposal_of

    installation = Installation.from_environment()
    plan = planned(installation, deployment, refresh)
    proposal = proposal_of(installation, plan, gate, backfill=is_backfill())
    if proposal.hold is not None and not proposal.is_champion:
        raise AirflowSkipException(f"held: {proposal.hold}")
    said = move(installation, proposal, actor=approver(answer) or AUTOMATIC, automatic=answer is None)
    tell_of(both(champion_asset, deployment), str(plan.window), version=proposal.version)
    _tell_change(installation, plan, proposal.version, said)
    return said


def gate_tasks(name: str, deployment: Deployment, refresh: Any) -> Any:
    """Wire ``renew`` → ``gate`` → ``promote``, with ``propose`` after ``renew`` for a manual gate.

    ``renew`` updates the serving method's parameters while a change is held. Return the first task.
    """
    outlets = both(champion_asset, name)
    moving = promote.override(pool=PROMOTION_POOL, outlets=outlets)
    if deployment.gate == "never":
        proposed = propose.override(task_id="gate")(name, refresh, deployment.gate)
        proposed >> moving(name, refresh, deployment.gate)
        return proposed
    renewed = renew.override(pool=PROMOTION_POOL, outlets=outlets)(name, refresh)
    if deployment.gate == "auto":
        proposing = propose.override(task_id="gate", trigger_rule=UNLESS_ALL_SKIPPED)
        renewed >> proposing(name, refresh, deployment.gate) >> moving(name, refresh, deployment.gate)
        return renewed
    evidence = propose.override(trigger_rule=UNLESS_ALL_SKIPPED)(name, refresh, deployment.gate)
    renewed >> evidence
    asked = Approval(
        task_id="gate",
        deployment=name,
        refresh=refresh,
        subject=f"Make this version the champion of {name}?",
        body="{{ ti.xcom_pull(task_ids='propose') }}",
        response_timeout=timedelta(hours=deployment.approval_hours),
        assigned_users=[{"id": user, "name": user} for user in deployment.approvers] or None,
        execution_timeout=None,
        doc_md="Approve to promote, reject to hold. Without an answer in time the champion stays.",
    )
    evidence >> asked
    moving(name, refresh, deployment.gate, asked.output)
    return renewed
