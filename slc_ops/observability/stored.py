"""Read what refreshes have stored, for status, page and metrics; unreadable files are reported elsewhere."""

import os
from functools import lru_cache
from pathlib import Path
from typing import Any

from slc_ops.base.errors import SlcError
from slc_ops.base.files import read_json
from slc_ops.settings.deployments import Installation

_KEPT = (
    "sentence", "versions", "status", "findings", "verdict", "kind", "decision", "renewal",
    "served", "off", "rows", "tolerance", "step", "outcome", "error",
)  # fmt: skip
"""The keys that the cache holds; a verdict has many more."""


def newest_with(directory: Path, holding: str) -> Path | None:
    """Return the newest window's directory that has the file ``holding``, by search from the newest name."""
    try:
        names = sorted((name for name in os.listdir(directory) if name[0].isdigit()), reverse=True)
    except OSError:
        return None
    return next((directory / name for name in names if (directory / name / holding).exists()), None)


def stored_json(installation: Installation, path: Path) -> dict[str, Any]:
    """Return the object in a JSON file below the home; {} if it is unreadable or reached by a link.

    The answer is cached until the file changes.
    """
    try:
        return {} if reached_by_link(installation, path) else _parsed(path, path.stat().st_mtime_ns)
    except (SlcError, OSError, ValueError):
        return {}


def reached_by_link(installation: Installation, path: Path) -> bool:
    """Return True if a component of ``path`` below the home is a symbolic link."""
    below = path.relative_to(installation.home).parts
    return any(installation.home.joinpath(*below[: count + 1]).is_symlink() for count in range(len(below)))


@lru_cache(maxsize=2048)
def _parsed(path: Path, changed: int) -> dict[str, Any]:
    value = read_json(path)
    return {key: value[key] for key in _KEPT if key in value} if isinstance(value, dict) else {}
