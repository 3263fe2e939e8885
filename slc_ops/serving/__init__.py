"""Serving: apply the champion's correction. Needs numpy and pyarrow, not Airflow, GX, pandas or MLflow."""

from typing import TYPE_CHECKING, Any

from slc_ops.serving.corrector import Corrector

if TYPE_CHECKING:
    from slc_ops.serving.server import app

__all__ = ["Corrector", "app"]


def __getattr__(name: str) -> Any:
    """Import ``app`` on first use: it needs the extra ``serve``, a corrector in Python does not."""
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from slc_ops.serving.server import app

    return app
