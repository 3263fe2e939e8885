"""Load the parameter set of an alias, verified, into memory, and record the contact with the registry."""

import logging
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from slc_ops.base.errors import RegistryError, SlcError
from slc_ops.serving.cache import Cache
from slc_ops.serving.pointer import Named, NoAlias, Pointer, Retired, check_may_follow
from slc_ops.serving.snapshot import Snapshot
from slc_ops.serving.sources import Bounded

_log = logging.getLogger(__name__)


class Follower:
    """Convert the alias's pointer into verified snapshots, and remember the last contact with the registry.

    ``patience`` is the number of seconds without contact after which the state is ``stale``: a forked
    process, for example, has no watcher (create the corrector after the fork). The watcher follows, any
    thread may read the state.
    """

    def __init__(
        self, source: Bounded, cache: Cache, deployment: str, alias: str, patience: float | None = None
    ) -> None:
        self._source, self._cache, self.deployment = source, cache, deployment
        self._alias, self._patience = alias, patience
        self._agreed_at: datetime | None = None
        self._problem: tuple[datetime, str] | None = None

    def health(self) -> dict[str, Any]:
        """Return the state; ``status`` is ``ok``, or ``stale`` with the cause in ``problem``."""
        agreed, problem = self._agreed_at, self._problem or self._silence()
        return {
            "status": "ok" if problem is None else "stale",
            "deployment": self.deployment,
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

    def first(self) -> Snapshot:
        """Return the first set: the registry's, or the last one of this host if the registry fails."""
        last = self._cache.last()
        try:
            snapshot = self._look(None, last)
        except SlcError as error:
            if last is None:
                raise
            self._failed(error)
            try:
                if isinstance(last, Retired):
                    return Snapshot.frozen(last, cached=True)
                return self._read(self._cache.directory(last), last, cached=True)
            except SlcError as second:
                raise RegistryError(f"{error}; and the cached {last.name}: {second}") from None
        self._agreed()
        return snapshot

    def next(self, current: Snapshot | None) -> Snapshot | None:
        """Return the set to serve from now on; on failure the current one, without the alias none."""
        try:
            found = self._look(current)
        except NoAlias:
            found = None
        except SlcError as error:
            self._failed(error)
            return current
        self._agreed()
        return found

    def _agreed(self) -> None:
        """Record that the registry's target is serving."""
        self._agreed_at, self._problem = datetime.now(UTC), None

    def _failed(self, error: SlcError) -> None:
        """Record that the registry did not answer, or that its target cannot be served."""
        self._problem = (datetime.now(UTC), " ".join(str(error).split()))

    def _look(self, current: Snapshot | None, last: Named | None = None) -> Snapshot:
        """Return the alias's verified set; ``current`` itself if the alias has not changed.

        Without a current set, ``last`` is the one that served last.
        """
        pointer = self._source.pointer()
        before = last if current is None else current.pointer
        if before is not None:
            check_may_follow(before, pointer)
        if current is None or before is None or before.name != pointer.name:
            return self._load(pointer)
        if before == pointer:
            return current
        self._cache.remember(pointer)
        return replace(current, pointer=pointer, cached=False)

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
