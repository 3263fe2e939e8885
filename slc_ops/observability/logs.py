"""Log lines outside of Airflow: ``SLC_OPS_LOG=json`` writes one JSON object per line to standard error.

Inside of Airflow its own structured log takes the same lines, with deployment and window in each.
"""

import logging
import sys
from typing import Any

from slc_ops.base.addresses import without_secrets


def configure_logs() -> None:
    """Do what ``SLC_OPS_LOG`` says: nothing (unset), or JSON lines: ours from INFO up, others' warnings."""
    from slc_ops.settings.environment import TerminalVariables

    if TerminalVariables.read().log is None:
        return
    import structlog

    before: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        _hide_secrets,
    ]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=before,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(),
            ],
        )
    )
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    logging.getLogger("slc_ops").setLevel(logging.INFO)


def _hide_secrets(logger: Any, method: str, line: Any) -> Any:
    """Errors of drivers quote addresses; what stands in them is not for a log."""
    return {key: without_secrets(value) if isinstance(value, str) else value for key, value in line.items()}
