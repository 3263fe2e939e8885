"""slc_ops: per-item logit correction of frozen models, as a weekly operation.

In a notebook: :class:`ItemCalibrator`, :func:`compare`, :func:`detectability`, :func:`replay` and
:func:`load`, over pandas, Polars and Arrow frames. They are imported when they are used; importing
``slc_ops`` imports nothing heavy.

Packages depend in one direction (docs/architecture.md). ``refresh`` holds the weekly job as plain functions;
Airflow DAGs and the ``slc-ops`` command only call them.
"""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from slc_ops.api.comparing import compare as compare
    from slc_ops.api.comparing import detectability as detectability
    from slc_ops.api.estimator import ItemCalibrator as ItemCalibrator
    from slc_ops.api.estimator import load as load
    from slc_ops.api.replaying import replay as replay

_PUBLIC = {
    "ItemCalibrator": "estimator",
    "compare": "comparing",
    "detectability": "comparing",
    "load": "estimator",
    "replay": "replaying",
}
"""Name → the module of ``slc_ops.api`` that has it."""

__all__ = ["ItemCalibrator", "__version__", "compare", "detectability", "load", "replay"]


def __getattr__(name: str) -> Any:
    """A public name, imported when it is first used."""
    if name not in _PUBLIC:
        raise AttributeError(f"module 'slc_ops' has no attribute {name!r}; it has {', '.join(__all__)}")
    if name in ("ItemCalibrator", "load"):
        from slc_ops.base.extras import require

        require(f"slc_ops.{name}", "sklearn")
    found = getattr(importlib.import_module(f"slc_ops.api.{_PUBLIC[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
