"""Load the parameter set of an alias, verified, into memory, and record the contact with the registry."""

import logging
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from slc_ops.base.errors import RegistryError, SlcError
from slc_ops.serving.cache import Cache
from slc_ops.serving.pointer import Named, Pointer, Retired, check_may_follow
from slc_ops.serving.snapshot import Snapshot
from slc_ops.serving.sources import Bounded

_log = logging.getLogger(__name__)


class Health:
    """The last contact with the registry; the watcher writes it, any thread may read it.

    ``patience`` is the number of seconds without contact after which the state is ``stale``: a forked
    process, for example, has no watcher (create the corrector after the fork).
    """

    def __init__(self, deployment: str, alias: str, patience: float | None = None) -> None:
        self._deployment, self._alias, self._patience = deployment, alias, patience
        self._agreed_at: datetime | None = None
        self._problem: tuple[datetime, str] | None = None

    def agreed(self) -> None:
        """Record that the registry's target is serving."""
        self._agreed_at, self._problem = datetime.now(UTC), None

    def failed(self, error: SlcError) -> None:
        """Record that the registry did not answer, or that its target cannot be served."""
        self._problem = (datetime.now(UTC), " ".join(str(error).split()))

    def as_dict(self) -> dict[str, Any]:
        """Return the state; ``status`` is ``ok``, or ``stale`` with the cause in ``problem``."""
        agreed, problem = self._agreed_at, self._problem or self._silence()
        return {
            "status": "ok" if problem is None else "stale",
            "deployment": self._deployment,
            "alias": self._alias,
            "agreed_at": None if agreed is None else agreed.isoformat(),
            "problem": None if problem is None else problem[1],
            "problem_at": None if problem is None else problem[0].isoformat(),
        }

    def _silence(self) -> tuple[datetime, str] | None:
        now = datetime.now(UTC)
        if self._patience is None or self._agreed_at is None:
            return None
        silent = (now - self._agreed_at).total_seconds()
        if silent <= self._patience:
            return None
        return (
            now,
            f"the registry has not been asked for {silent:.0f} s: the watcher of this process has stopped",
        )


class Follower:
    """Convert the alias's pointer into verified snapshots, and record success or failure in ``health``."""

    def __init__(self, source: Bounded, cache: Cache, health: Health, deployment: str) -> None:
        self._source, self._cache, self.health, self.deployment = source, cache, health, deployment

    def first(self) -> Snapshot:
        """Return the first set: the registry's, or the last one of this host if the registry fails."""
        last = self._cache.last()
        self._source.begin()
        try:
            pointer = self._source.pointer()
            if last is not None:
                check_may_follow(last, pointer)
            snapshot = self._load(pointer)
        except SlcError as error:
            if last is None:
                raise
            self.health.failed(error)
            try:
                if isinstance(last, Retired):
                    return Snapshot.frozen(last, cached=True)
                return self._read(self._cache.directory(last), last, cached=True)
            except SlcError as second:
                raise RegistryError(f"{error}; and the cached {last.name}: {second}") from None
        self.health.agreed()
        return snapshot

    def next(self, current: Snapshot) -> Snapshot | None:
        """Return another set to serve, or None; on failure the current one stays."""
        try:
            found = self.look(current)
        except SlcError as error:
            self.health.failed(error)
            return None
        self.health.agreed()
        return None if found is current else found

    def look(self, current: Snapshot | None) -> Snapshot:
        """Return the alias's verified set; ``current`` itself if the alias has not changed."""
        self._source.begin()
        pointer = self._source.pointer()
        before = None if current is None else current.pointer
        if current is not None and before == pointer:
            return current
        if before is not None:
            check_may_follow(before, pointer)
        if current is not None and before is not None and before.name == pointer.name:
            self._cache.remember(pointer)
            return current.renamed(pointer)
        return self._load(pointer)

    def _load(self, pointer: Named) -> Snapshot:
        """Fetch, verify and record the set; files that fail are deleted and fetched once more."""
        if isinstance(pointer, Retired):
            _log.warning("the champion was retired: the frozen probabilities are served from now on")
            self._cache.remember(pointer)
            return Snapshot.frozen(pointer)
        try:
            snapshot = self._read(self._cache.fetch(self._source, pointer), pointer)
        except SlcError:
            self._cache.forget(pointer)
            try:
                snapshot = self._read(self._cache.fetch(self._source, pointer), pointer)
            except SlcError:
                self._cache.forget(pointer)
                raise
        self._cache.remember(pointer)
        return snapshot

    def _read(self, directory: Path, pointer: Pointer, *, cached: bool = False) -> Snapshot:
        return Snapshot.read(directory, pointer, cached=cached, deployment=self.deployment)
