"""Valid and invalid requests generated from the server's own description (schemathesis)."""

import tempfile
from pathlib import Path

import schemathesis
from hypothesis import HealthCheck, settings

from slc_ops.serving import Corrector, app
from slc_ops.serving.endpoint import Limits
from tests.registry.factory import parameter_set

with tempfile.TemporaryDirectory(prefix="slc-fuzz-") as home:
    served = app(
        Corrector.from_directory(parameter_set(Path(home, "set"))), limits=Limits(bytes=1 << 18, rows=1000)
    )
pytest_plugins = ["schemathesis.pytest.plugin"]
"""The settings of pytest leave it out: it takes a second to import."""
BEYOND_A_SCHEMA = schemathesis.checks.positive_data_acceptance
"""That columns are of equal length, ids of one type and versions those that serve, no schema can say."""
schema = schemathesis.openapi.from_asgi("/openapi.json", served)


@schema.parametrize()
@settings(max_examples=30, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_answers_match_the_openapi_description(case: schemathesis.Case) -> None:
    """No status 500, and statuses, media types and bodies as described, for any request."""
    case.call_and_validate(excluded_checks=[BEYOND_A_SCHEMA])
