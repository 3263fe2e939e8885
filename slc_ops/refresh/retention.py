"""``clean``: delete windows and refreshes beyond the deployment's limits, unless they are still needed.

The champion history, the versions and their parameters are in the ledger and in MLflow, which this never
changes. A directory gets a hidden name before it is deleted, so that a killed process leaves no partial
window; the next call finishes the deletion.
"""

import os
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slc_ops.base.errors import PromotionRefused
from slc_ops.base.files import typed_storage
from slc_ops.intake.extract import ABANDONED
from slc_ops.intake.manifest import FILE, WindowManifest
from slc_ops.refresh.files import PLAN, STEPS, RefreshFiles
from slc_ops.refresh.plan import read_plan
from slc_ops.refresh.versions import registered_by
from slc_ops.settings.deployments import Deployment
from slc_ops.settings.environment import Installation

GONE = "gone-"


@dataclass(frozen=True)
class Removable:
    """The paths that a deployment no longer needs, and the bytes that their deletion frees."""

    deployment: str
    windows: list[Path]
    refreshes: list[Path]
    leftovers: list[Path]

    @property
    def paths(self) -> list[Path]:
        """All paths."""
        return [*self.windows, *self.refreshes, *self.leftovers]

    @property
    def bytes(self) -> int:
        """The bytes that are freed: a file with another hard link frees none."""
        found: dict[tuple[int, int], list[os.stat_result]] = {}
        for path in self.paths:
            for file in _files(path):
                stat = file.stat()
                found.setdefault((stat.st_dev, stat.st_ino), []).append(stat)
        return sum(names[0].st_size for names in found.values() if len(names) >= names[0].st_nlink)

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form of ``slc-ops clean``."""
        return {
            "deployment": self.deployment,
            "windows": [path.name for path in self.windows],
            "refreshes": [str(Path(*path.parts[-2:])) for path in self.refreshes],
            "leftovers": [str(path) for path in self.leftovers],
            "bytes": self.bytes,
        }


def removable(installation: Installation, name: str) -> Removable:
    """Return the paths beyond ``keep_windows`` and ``keep_refreshes`` that nothing needs.

    These stay at any age: windows that the next refresh reads; the refreshes of the champion, of the
    challenger and of a rollback's target; and every refresh modified within a day, with its windows, because
    it may be running.
    """
    deployment = installation.deployment(name)
    refreshes, at_work = _refreshes(installation, name, deployment)
    return Removable(
        deployment=name,
        windows=_windows(installation, name, deployment, at_work),
        refreshes=refreshes,
        leftovers=leftovers(installation, name),
    )


def remove(found: Removable) -> None:
    """Delete the paths; a repeated call finishes an interrupted one.

    Raises :class:`~slc_ops.base.errors.StorageError` if the file system refuses; the remaining paths are
    whole.
    """
    for path in found.paths:
        discard(path)
    for week in {path.parent for path in found.refreshes}:
        if week.is_dir() and not any(week.glob(f"*/{PLAN}")):
            discard(week)  # only records of steps are left


def _windows(installation: Installation, name: str, deployment: Deployment, at_work: set[str]) -> list[Path]:
    from slc_ops.quality.history import reach as history_reach
    from slc_ops.refresh.window_rules import Reach, needed_windows

    found = sorted(path.parent for path in installation.windows(name).glob(f"[!.]*/{FILE}"))
    if not found:
        return []
    # The next refresh starts one window later, so it needs no other windows of these.
    needed = needed_windows(WindowManifest.read(found[-1]).window, Reach.of(dict(deployment)))
    baselines = needed[0].before(history_reach(needed[0]))
    kept = {window.key for window in [*baselines, *needed]} | at_work
    return [
        path for path in found[: -deployment.keep_windows] if path.name not in kept and not is_recent(path)
    ]


def _refreshes(installation: Installation, name: str, deployment: Deployment) -> tuple[list[Path], set[str]]:
    """Return the removable refreshes, and the windows of those that may be running."""
    weeks = sorted(path for path in installation.refreshes(name).glob("[!.]*") if path.is_dir())
    in_use = versions_in_use(installation, name)
    found: list[Path] = []
    at_work: set[str] = set()
    for position, week in enumerate(weeks):
        old = position < len(weeks) - deployment.keep_refreshes
        for directory in sorted(path.parent for path in week.glob(f"[!.]*/{PLAN}")):
            files = RefreshFiles(directory)
            if is_recent(directory) or is_recent(week):
                at_work |= {each.window.key for each in read_plan(files.plan).pinned}
            elif old and not in_use & {each.number for each in registered_by(files)}:
                found.append(directory)
    return found, at_work


def versions_in_use(installation: Installation, name: str, *, challenger: bool = True) -> set[int]:
    """Return the champion, the target of a rollback and, unless excluded, the challenger."""
    from slc_ops.registry import Registry
    from slc_ops.registry.rules import rollback_target

    ledger = Registry.open(installation, create=False).ledger
    head = ledger.head(name)
    found = {head.champion, head.challenger if challenger else None}
    with suppress(PromotionRefused):  # no earlier champion
        found.add(rollback_target(name, ledger.line(name)))
    return {number for number in found if number is not None}


def leftovers(installation: Installation, name: str) -> list[Path]:
    """Return the remains of a killed ``clean``, and temporary directories of refreshes, idle for a day."""
    gone = [
        path
        for root in (installation.windows(name), installation.refreshes(name))
        for path in root.rglob(f".*.{GONE}*")
    ]
    idle = [path for path in installation.refreshes(name).rglob(".*/") if not is_recent(path)]
    return sorted({*gone, *idle})


def is_recent(directory: Path) -> bool:
    """Return True if a file in it was modified within a day; for a window of refreshes, its step records."""
    touched = [directory.stat().st_mtime]
    steps = directory / STEPS
    for file in _files(steps) if steps.is_dir() else _files(directory):
        touched.append(file.lstat().st_mtime)
    return time.time() - max(touched) < ABANDONED


def _files(path: Path) -> Iterator[Path]:
    return (each for each in path.rglob("*") if each.is_file())


def discard(path: Path) -> None:
    """Delete a directory: first rename it, which is atomic, then delete its contents."""
    with typed_storage(path), suppress(FileNotFoundError):  # another process was first
        gone = path
        if f".{GONE}" not in path.name:
            gone = path.with_name(f".{path.name.lstrip('.')}.{GONE}{secrets.token_hex(4)}")
            os.replace(path, gone)
        shutil.rmtree(gone)
