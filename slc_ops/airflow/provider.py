"""What ``airflow providers list`` shows."""

from typing import Any

from slc_ops import __version__


def get_provider_info() -> dict[str, Any]:
    """The provider's metadata; the plugins have entry points of their own."""
    return {
        "package-name": "slc-ops",
        "name": "SLC",
        "description": "Weekly per-item logit correction of frozen models",
        "versions": [__version__],
    }
