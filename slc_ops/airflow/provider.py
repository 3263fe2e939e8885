"""Metadata for ``airflow providers list``."""

from typing import Any

from slc_ops import __version__


def get_provider_info() -> dict[str, Any]:
    """Return the provider's metadata; plugins have separate entry points."""
    return {
        "package-name": "slc-ops",
        "name": "SLC",
        "description": "Weekly per-item logit correction of frozen models",
        "versions": [__version__],
    }
