"""Looking at the alias now and then, in the background, and saying how that went."""

import logging
import random
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from slc_ops.base.errors import SlcError

_log = logging.getLogger(__name__)


class Health:
    """The last contact with the registry. Written by the watcher, read by anybody.

    ``patience`` is how many seconds may pass without agreement before that itself is the problem: a forked
    process, for example, has no watcher (make a corrector after the fork).
    """

    def __init__(self, deployment: str, alias: str, patience: float | None = None) -> None:
        self._deployment, self._alias, self._patience = deployment, alias, patience
        self._agreed_at: datetime | None = None
        self._problem: tuple[datetime, str] | None = None

    def agreed(self) -> None:
        """The registry answered, and what it names is what serves."""
        self._agreed_at, self._problem = datetime.now(UTC), None

    def failed(self, error: SlcError) -> None:
        """The registry did not answer, or named something that cannot be served."""
        self._problem = (datetime.now(UTC), " ".join(str(error).split()))

    def as_dict(self) -> dict[str, Any]:
        """``status`` is ``ok``, or ``stale``: the last good set serves, and ``problem`` says why."""
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
        return now, f"the registry has not been asked for {silent:.0f} s: the watcher of this process is gone"


class Watcher:
    """A daemon thread that calls ``look`` every ``interval`` seconds, a little earlier or later each time."""

    def __init__(self, look: Callable[[], object], interval: float) -> None:
        self._look, self._interval = look, interval
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="slc-ops-watch", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        # A fleet that was started together should not ask together; nothing secret about it.
        while not self._stopped.wait(self._interval * random.uniform(0.8, 1.2)):  # noqa: S311
            try:
                self._look()
            except Exception:  # a watcher that dies would leave the server with its old set for ever
                _log.exception("looking at the alias failed in an unexpected way; watching goes on")

    def stop(self) -> None:
        """End the thread; waits for a look that is under way, but not for ever."""
        self._stopped.set()
        self._thread.join(timeout=self._interval + 10)
