"""Which failures are retried."""

import pytest
from airflow.sdk import RetryAction

from slc_ops.airflow.retries import retry_policy
from slc_ops.base import errors


@pytest.mark.parametrize(
    "error",
    [
        errors.ValidationStopped("empty window"),
        errors.InputError("no rows"),
        errors.SettingsError("unknown deployment"),
        errors.OneClassError("all ones"),
        errors.SelfTestFailed("Platt changed the AUC"),
        errors.PromotionRefused("older window"),
        errors.PromotionConflict("another promotion was first"),
        TypeError("a defect"),
    ],
)
def test_permanent_errors_fail_without_a_retry(error: Exception) -> None:
    assert retry_policy().evaluate(error, 1, 3).action is RetryAction.FAIL


@pytest.mark.parametrize("error", [errors.RegistryError("MLflow is away"), OSError("disk"), TimeoutError()])
def test_transient_errors_are_retried_with_backoff(error: Exception) -> None:
    assert retry_policy().evaluate(error, 1, 3).action is RetryAction.DEFAULT
