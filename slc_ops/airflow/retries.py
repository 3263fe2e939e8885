"""Retry rules: retry only errors that may be temporary.

An :class:`~slc_ops.base.errors.SlcError` reports invalid input, settings or evidence, so a retry cannot
succeed and the task fails immediately. An unreachable registry or ledger may recover within a minute, and so
may a file system or a database.
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


def retry_policy() -> ExceptionRetryPolicy:
    """Return the retry rules; the first match applies, otherwise Airflow's backoff."""
    final = RetryAction.FAIL
    return ExceptionRetryPolicy(
        [
            RetryRule(PromotionRefused, final, reason="the rules of promotion forbid this move"),
            RetryRule(RegistryError, RetryAction.DEFAULT, reason="registry or ledger may be back soon"),
            RetryRule(SourceUnavailable, RetryAction.DEFAULT, reason="the log's source may be back soon"),
            RetryRule(StorageError, RetryAction.DEFAULT, reason="the disk may have space again soon"),
            RetryRule(SlcError, final, reason="a retry would give the same result"),
            RetryRule(BUGS, final, reason="a defect in the code; a retry would fail again"),
        ]
    )


def default_args(owner: str, *, hours: float = 2) -> dict[str, Any]:
    """Return the arguments of every task: owner, time limit, three attempts with backoff from 30 s."""
    return {
        "owner": owner,
        "retries": 2,
        "retry_delay": timedelta(seconds=30),
        "retry_exponential_backoff": True,
        "max_retry_delay": timedelta(minutes=10),
        "retry_policy": retry_policy(),
        "execution_timeout": timedelta(hours=hours),
    }
