"""Logs outside Airflow: ``SLC_OPS_LOG=json`` writes one JSON object per line to standard error.

Inside Airflow the same lines go to its structured log, each with deployment and window.
"""

import logging
import sys
from typing import Any

from slc_ops.base.addresses import without_secrets


def configure_logs() -> None:
    """Configure logs by ``SLC_OPS_LOG``: none, or JSON lines from INFO (ours) and WARNING (libraries)."""
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
    """Mask secrets in addresses, which errors of drivers contain."""
    return {key: without_secrets(value) if isinstance(value, str) else value for key, value in line.items()}
