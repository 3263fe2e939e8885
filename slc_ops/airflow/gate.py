"""The gate between a published version and the champion: ``auto``, ``manual`` or ``never``.

The manual gate is an approval with a reminder at half time; without an answer the candidate is held.
"""

import logging
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.providers.standard.exceptions import HITLTimeoutError
from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import task
from airflow.sdk.exceptions import AirflowSkipException, TaskAwaitingInput

from slc_ops.airflow.assets import both, champion_asset, tell_of
from slc_ops.airflow.messages import as_markdown, notify, version_links
from slc_ops.airflow.runs import is_backfill, planned
from slc_ops.airflow.users import strangers_in_words
from slc_ops.refresh import gate as rules
from slc_ops.refresh.plan import Plan
from slc_ops.refresh.versions import held_in_a_row, outcomes
from slc_ops.settings.deployments import Deployment
from slc_ops.settings.environment import Installation

log = logging.getLogger(__name__)

UNLESS_ALL_SKIPPED = "none_failed_min_one_success"
"""Trigger rule: a skipped renewal does not skip the gate, a skipped refresh does."""
AUTOMATIC = "slc_weekly_refresh"
"""The actor of automatic promotions in the ledger."""
REQUIRED_ACTION = {"required action": "/tasks/gate/required_actions"}
"""The page for the answer, below the run's page."""


@task
def propose(deployment: str, refresh: str, gate: str) -> str:
    """Hold a candidate that may not be promoted; for others, compile the evidence."""
    installation, plan, proposal = _proposed(deployment, refresh, gate)
    if proposal.hold is not None:
        # A rejection is notified by decide; with the gate "never" there is no approval.
        silent = proposal.verdict.get("verdict") == "reject" or gate == "never"
        if not (silent or proposal.is_champion or is_backfill()):
            tell_held(installation, plan, proposal.version, proposal.hold)
        raise AirflowSkipException(f"held: {proposal.hold}")
    if gate == "manual":
        tell_approval(installation, plan, proposal)
    if proposal.version is None:
        return rules.evidence_text(plan, proposal)
    links = version_links(deployment, proposal.version, plan.window)
    text = f"{rules.evidence_text(plan, proposal)}\n\nOpen: {as_markdown(links)}"
    stranger = strangers_in_words(installation.deployment(deployment).approvers)
    return text if stranger is None else f"{text}\n\n{stranger}"


def _proposed(deployment: str, refresh: str, gate: str) -> tuple[Installation, Plan, rules.Proposal]:
    installation = Installation.from_environment()
    plan = planned(installation, deployment, refresh)
    return installation, plan, rules.propose(installation, plan, gate, backfill=is_backfill())


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
    installation = Installation.from_environment()
    plan = planned(installation, deployment, refresh)
    said = None if is_backfill() else rules.renew_meanwhile(installation, plan, actor=AUTOMATIC)
    if said is None:
        raise AirflowSkipException("nothing to renew without a person")
    tell_of(both(champion_asset, deployment), str(plan.window))
    return said


@task
def promote(deployment: str, refresh: str, gate: str, answer: Any = None) -> str:
    """Make the version the champion: first in the ledger by compare-and-set, then by MLflow's alias."""
    installation, plan, proposal = _proposed(deployment, refresh, gate)
    if proposal.hold is not None and not proposal.is_champion:
        raise AirflowSkipException(f"held: {proposal.hold}")
    said = rules.promote(
        installation, proposal, actor=approver(answer) or AUTOMATIC, automatic=answer is None
    )
    tell_of(both(champion_asset, deployment), str(plan.window), version=proposal.version)
    _tell_change(installation, plan, proposal.version, said)
    return said


class Approval(ApprovalOperator):  # type: ignore[misc]  # Airflow carries no usable types
    """Airflow's approval, without a default answer; without an answer in time, the candidate is held.

    It waits twice for half of ``response_timeout`` and sends a reminder in between.
    """

    template_fields = (*ApprovalOperator.template_fields, "refresh")

    def __init__(self, *, deployment: str, refresh: Any, response_timeout: timedelta, **options: Any) -> None:
        super().__init__(response_timeout=response_timeout, **options)
        self.deployment = deployment
        self.refresh = refresh

    def execute(self, context: Any) -> None:
        """Request the approval and wait for the first half of the time."""
        try:
            super().execute(context)
        except TaskAwaitingInput as waiting:
            waiting.timeout = self.response_timeout / 2
            raise

    def execute_complete(self, context: Any, event: dict[str, Any], reminded: bool = False) -> Any:
        """Handle an answer, the half-time reminder, or the time-out."""
        if event.get("error_type") == "timeout":
            self._tell(reminder=not reminded)
            if not reminded:
                half = self.response_timeout / 2
                raise TaskAwaitingInput(
                    method_name="execute_complete", kwargs={"reminded": True}, timeout=half
                )
        return super().execute_complete(context=context, event=event)

    def process_trigger_event_error(self, event: dict[str, Any]) -> None:
        """Skip the promotion after a time-out; the run does not fail."""
        try:
            super().process_trigger_event_error(event)
        except HITLTimeoutError:
            raise AirflowSkipException(
                f"held: {self._silence}; the champion stays, the version "
                "waits as challenger and can still be promoted with slc_promote"
            ) from None

    @property
    def _silence(self) -> str:
        return f"nobody answered within {self.response_timeout}"

    def _tell(self, *, reminder: bool) -> None:
        """Notify at half time that the approval is open, at the end that the candidate is held."""
        try:
            installation, plan, proposal = _proposed(self.deployment, self.refresh, "manual")
            if not reminder:
                tell_held(installation, plan, proposal.version, self._silence)
            elif proposal.hold is None:  # otherwise an answer has no effect
                tell_approval(installation, plan, proposal, reminder=True)
        except Exception:  # a failed notification must not fail the task
            log.exception("the notification of the open approval of %s failed", self.deployment)


def approver(answer: Any) -> str | None:
    """Return the name of the approver; None without an answer."""
    user = (answer or {}).get("responded_by_user") or {}
    name = user.get("name") or user.get("id")
    return None if answer is None else f"{name or 'unknown user'} (Airflow approval)"


def tell_held(installation: Installation, plan: Plan, version: int | None, why: str) -> None:
    """Notify that a candidate is held, with the number of consecutive windows."""
    from slc_ops.registry import Registry

    line = Registry.open(installation).history(plan.deployment)
    decided = list(outcomes(plan.files.refreshes))
    count = max(held_in_a_row(decided, line, plan.window), 1)
    notify("held", plan.deployment, f"held, {count} in a row: {why}", plan.window, version)


def tell_approval(
    installation: Installation, plan: Plan, proposal: rules.Proposal, *, reminder: bool = False
) -> None:
    """Notify the approvers of an open approval and its deadline, or remind them."""
    settings, version = installation.deployment(plan.deployment), proposal.version
    asked = ", ".join(settings.approvers) or "everybody who may edit the run"
    what = "that the frozen model serves" if version is None else f"version {version}"
    hours = settings.approval_hours / 2 if reminder else settings.approval_hours
    until = datetime.now(UTC) + timedelta(hours=hours)
    sentence = (
        f"{'reminder: ' if reminder else ''}{what} of {plan.deployment} waits for approval by {asked}, "
        f"until {until:%Y-%m-%d %H:%M} UTC: {proposal.verdict['sentence']}"
    )
    if (stranger := strangers_in_words(settings.approvers)) is not None:
        log.warning("%s", stranger)
        sentence += f" ({stranger})"
    notify(
        "approval", plan.deployment, sentence, plan.window, version, below=REQUIRED_ACTION, reminder=reminder
    )


def gate_tasks(name: str, deployment: Deployment, refresh: Any) -> Any:
    """Wire ``renew`` → ``gate`` → ``promote``, with ``propose`` after ``renew`` for a manual gate.

    ``renew`` updates the serving method's parameters while a change is held. Return the first task.
    """
    outlets = both(champion_asset, name)
    moving = promote.override(outlets=outlets)
    if deployment.gate == "never":
        proposed = propose.override(task_id="gate")(name, refresh, deployment.gate)
        proposed >> moving(name, refresh, deployment.gate)
        return proposed
    renewed = renew.override(outlets=outlets)(name, refresh)
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
