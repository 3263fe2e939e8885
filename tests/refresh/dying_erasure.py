"""An erasure that dies by SIGKILL after its n-th piece of work; run as a process by test_erasure.py.

Usage: python -m tests.refresh.dying_erasure USER PIECES
"""

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from slc_ops.refresh import erasure
from slc_ops.settings.environment import Installation

PIECES = ("erase_window", "_strip", "record_erasure", "discard")


def main(user: str, pieces: int) -> None:
    """Erase a user and be killed on the way; ends normally if there are fewer pieces."""
    left = [pieces]

    def counted(work: Callable[..., Any]) -> Callable[..., Any]:
        def piece(*args: Any, **options: Any) -> Any:
            found = work(*args, **options)
            left[0] -= 1
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)
            return found

        return piece

    for name in PIECES:
        setattr(erasure, name, counted(getattr(erasure, name)))
    erasure.erase(Installation.from_environment(), [user], actor="ann")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
