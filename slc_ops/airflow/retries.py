"""What is tried again: only what may pass the second time.

An :class:`~slc_ops.base.errors.SlcError` is a verdict on the input, the settings or the evidence; trying
again changes nothing, so the task fails at once. A registry or ledger that could not be reached may be back
in a minute, and so may a file system or a database that raised an error of its own.
"""

from datetime import timedelta
from typing import Any

from airflow.sdk import ExceptionRetryPolicy, RetryAction, RetryRule

from slc_ops.base.errors import (
    PromotionRefused,
    RegistryError,
    SlcError,
    SourceUnavailable,
    StorageError,
)

BUGS: list[Any] = [TypeError, AttributeError, NameError, ImportError, AssertionError]

PROMOTION_POOL = "slc_promotion"
"""One slot: promotions of all deployments happen one after the other. A plugin makes it."""


def retry_policy() -> ExceptionRetryPolicy:
    """The first rule that fits decides; without one Airflow's own backoff applies."""
    final = RetryAction.FAIL
    return ExceptionRetryPolicy(
        [
            RetryRule(PromotionRefused, final, reason="the rules of promotion forbid this move"),
            RetryRule(RegistryError, RetryAction.DEFAULT, reason="registry or ledger may be back soon"),
            RetryRule(SourceUnavailable, RetryAction.DEFAULT, reason="the log's source may be back soon"),
            RetryRule(StorageError, RetryAction.DEFAULT, reason="somebody may make room on the disk"),
            RetryRule(SlcError, final, reason="trying again would give the same answer"),
            RetryRule(BUGS, final, reason="a defect in the code; trying again would hit it again"),
        ]
    )


def default_args(owner: str, *, hours: float = 2) -> dict[str, Any]:
    """Arguments of every task: owner, a bound on its time, three tries from half a minute up."""
    return {
        "owner": owner,
        "retries": 2,
        "retry_delay": timedelta(seconds=30),
        "retry_exponential_backoff": True,
        "max_retry_delay": timedelta(minutes=10),
        "retry_policy": retry_policy(),
        "execution_timeout": timedelta(hours=hours),
    }
