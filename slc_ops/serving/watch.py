"""Check the alias periodically in the background, and record the result."""

import logging
import random
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from slc_ops.base.errors import SlcError

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


class Watcher:
    """A daemon thread that calls ``look`` every ``interval`` seconds, with a random jitter of 20 %."""

    def __init__(self, look: Callable[[], object], interval: float) -> None:
        self._look, self._interval = look, interval
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="slc-ops-watch", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        # The jitter spreads the requests of hosts that started together; it needs no cryptographic
        # randomness.
        while not self._stopped.wait(self._interval * random.uniform(0.8, 1.2)):  # noqa: S311
            try:
                self._look()
            except Exception:  # without a watcher the server would keep its old set
                _log.exception("polling the alias failed unexpectedly; polling continues")

    def stop(self) -> None:
        """End the thread; wait for a running check, but at most ``interval`` + 10 seconds."""
        self._stopped.set()
        self._thread.join(timeout=self._interval + 10)
