"""Facts of the newest window on disk, for status, page and metrics; unreadable files count as absent."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slc_ops.base.errors import SlcError
from slc_ops.base.files import read_json
from slc_ops.quality.result import RESULT
from slc_ops.refresh.files import STEPS, VERSIONS, RefreshFiles
from slc_ops.refresh.served import FILE as SERVED
from slc_ops.settings.environment import Installation

if TYPE_CHECKING:
    from slc_ops.registry import Version


def newest_with(directory: Path, holding: str) -> Path | None:
    """Return the newest window's directory that has the file ``holding``, by search from the newest name."""
    try:
        names = sorted((name for name in os.listdir(directory) if name[0].isdigit()), reverse=True)
    except OSError:
        return None
    return next((directory / name for name in names if (directory / name / holding).exists()), None)


def newest_validation(installation: Installation, name: str) -> tuple[str, dict[str, Any]]:
    """Return the newest validated window and its result; both are empty without one."""
    newest = newest_with(installation.windows(name), RESULT)
    return ("", {}) if newest is None else (newest.name, stored_json(installation, newest / RESULT))


def newest_audit(installation: Installation, name: str) -> tuple[str, dict[str, Any]]:
    """Return the newest window with served probabilities and their audit; both are empty without one."""
    newest = newest_with(installation.windows(name), SERVED)
    return ("", {}) if newest is None else (newest.name, stored_json(installation, newest / SERVED))


def newest_steps(installation: Installation, name: str) -> tuple[str, list[dict[str, Any]]]:
    """Return the newest refreshed window and the records of its steps; both are empty without one."""
    newest = newest_with(installation.refreshes(name), STEPS)
    if newest is None:
        return "", []
    records = [stored_json(installation, path) for path in sorted((newest / STEPS).glob("*.json"))]
    return newest.name, [record for record in records if record]


@dataclass(frozen=True)
class Origin:
    """The refresh that registered a version, and the directory of its parameter set."""

    files: RefreshFiles
    parameters: Path


def refresh_of(installation: Installation, version: "Version") -> Origin | None:
    """Return the refresh that registered a version; None if it is not on this host."""
    for file in (installation.refreshes(version.deployment) / version.window.key).glob(f"*/{VERSIONS}"):
        for each in stored_json(installation, file).get("versions") or []:
            if each["number"] == version.number:
                # Use only the last path component, so that the file cannot point outside.
                return Origin(RefreshFiles(file.parent), file.parent / Path(each["parameters"]).name)
    return None


def stored_json(installation: Installation, path: Path) -> dict[str, Any]:
    """Return the object in a JSON file below the home; {} if it is unreadable or reached by a link."""
    try:
        found = read_json(path) if is_ours(installation, path) else None
    except (SlcError, OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def is_ours(installation: Installation, path: Path) -> bool:
    """Return True if the file exists and no component of ``path`` below the home is a symbolic link."""
    below = path.relative_to(installation.home).parts
    parts = (installation.home.joinpath(*below[: count + 1]) for count in range(len(below)))
    return path.is_file() and not any(part.is_symlink() for part in parts)
