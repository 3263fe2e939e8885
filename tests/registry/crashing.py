"""A publisher that dies by SIGKILL after its n-th call to the outside; run as a process by test_crash.py.

Usage: python -m tests.registry.crashing HOME PARAMETERS CALLS
Prints the calls it made, one per line, as it makes them.
"""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from slc_ops.registry import Registry
from tests.registry.factory import installation_in, publication


class Fuse:
    """Count calls and kill the process right after the chosen one has returned."""

    def __init__(self, calls: int) -> None:
        self.calls = calls

    def burn(self, name: str) -> None:
        print(name, flush=True)
        self.calls -= 1
        if self.calls == 0:
            os.kill(os.getpid(), signal.SIGKILL)


class Counted:
    """MLflow's client, with every call counted."""

    def __init__(self, client: Any, fuse: Fuse) -> None:
        self._client, self._fuse = client, fuse

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._client, name)
        if not callable(found):
            return found

        def call(*args: Any, **options: Any) -> Any:
            answer = found(*args, **options)
            self._fuse.burn(name)
            return answer

        return call


def arm(registry: Registry, fuse: Fuse) -> None:
    """Count every call of MLflow's client and every transaction of the ledger."""
    registry.__dict__["client"] = Counted(registry.client, fuse)
    database = registry.ledger.database
    for name in ("reading", "writing"):
        setattr(database, name, _counted_transaction(getattr(database, name), name, fuse))


def _counted_transaction(open_transaction: Any, name: str, fuse: Fuse) -> Any:
    @contextmanager
    def counted() -> Iterator[Any]:
        with open_transaction() as connection:
            yield connection
        fuse.burn(f"ledger {name}")

    return counted


def main(home: str, parameters: str, calls: str) -> None:
    """Publish, promote and retire, and be killed on the way; a second start continues."""
    registry = Registry.open(installation_in(Path(home)))
    arm(registry, Fuse(int(calls)))
    report = Path(home) / "report.html"
    report.write_text("<html></html>")
    version = registry.publish(publication(Path(parameters), artifacts={"report": report}))
    registry.promote(
        "demo", version.number, actor="schedule", reason="evidence", against="none", request="first"
    )
    registry.retire("demo", actor="ann", reason="a new backbone", against=version.number, request="second")


if __name__ == "__main__":
    main(*sys.argv[1:])
