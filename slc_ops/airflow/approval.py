"""The manual gate: an approval with a reminder at half time; without an answer the candidate is held."""

import logging
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.providers.standard.exceptions import HITLTimeoutError
from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk.exceptions import AirflowSkipException, TaskAwaitingInput

from slc_ops.airflow.messages import notify
from slc_ops.airflow.runs import planned
from slc_ops.airflow.users import strangers_in_words
from slc_ops.refresh.plan import Plan
from slc_ops.settings.environment import Installation

log = logging.getLogger(__name__)

REQUIRED_ACTION = {"required action": "/tasks/gate/required_actions"}
"""The page for the answer, below the run's page."""


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
        from slc_ops.refresh.gate import propose

        try:
            installation = Installation.from_environment()
            plan = planned(installation, self.deployment, self.refresh)
            proposal = propose(installation, plan, "manual")
            if not reminder:
                tell_held(installation, plan, proposal.version, self._silence)
            elif proposal.hold is None:  # otherwise an answer has no effect
                sentence = proposal.verdict["sentence"]
                tell_approval(installation, plan, proposal.version, sentence, reminder=True)
        except Exception:  # a failed notification must not fail the task
            log.exception("the notification of the open approval of %s failed", self.deployment)


def approver(answer: Any) -> str | None:
    """Return the name of the approver; None without an answer."""
    user = (answer or {}).get("responded_by_user") or {}
    name = user.get("name") or user.get("id")
    return None if answer is None else f"{name or 'unknown user'} (Airflow approval)"


def tell_held(installation: Installation, plan: Plan, version: int | None, why: str) -> None:
    """Notify that a candidate is held, with the number of consecutive windows."""
    from slc_ops.refresh.versions import held_in_a_row, outcomes
    from slc_ops.registry import Registry

    line = Registry.open(installation).history(plan.deployment)
    decided = list(outcomes(plan.files.refreshes))
    count = max(held_in_a_row(decided, line, plan.window), 1)
    notify("held", plan.deployment, f"held, {count} in a row: {why}", plan.window, version)


def tell_approval(
    installation: Installation, plan: Plan, version: int | None, why: str, *, reminder: bool = False
) -> None:
    """Notify the approvers of an open approval and its deadline, or remind them."""
    settings = installation.deployment(plan.deployment)
    asked = ", ".join(settings.approvers) or "everybody who may edit the run"
    what = "that the frozen model serves" if version is None else f"version {version}"
    hours = settings.approval_hours / 2 if reminder else settings.approval_hours
    until = datetime.now(UTC) + timedelta(hours=hours)
    sentence = (
        f"{'reminder: ' if reminder else ''}{what} of {plan.deployment} waits for approval by {asked}, "
        f"until {until:%Y-%m-%d %H:%M} UTC: {why}"
    )
    if (stranger := strangers_in_words(settings.approvers)) is not None:
        log.warning("%s", stranger)
        sentence += f" ({stranger})"
    notify(
        "approval", plan.deployment, sentence, plan.window, version, below=REQUIRED_ACTION, reminder=reminder
    )
