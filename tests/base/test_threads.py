"""Values made ahead in a thread."""

import subprocess
import sys

import pytest

from slc_ops.base.threads import made_ahead

ABANDONED = """
import gc
from slc_ops.base.threads import made_ahead

class Holder:
    pass

gc.set_threshold(5)
for _ in range(500):
    holder = Holder()
    holder.itself, holder.values = holder, made_ahead(k for k in range(10))
    next(holder.values)
    del holder  # only the garbage collector can close the generator now
    assert list(made_ahead(k for k in range(3))) == [0, 1, 2]
"""


def test_the_garbage_collector_may_close_abandoned_values_while_another_thread_starts() -> None:
    # With an executor's threads, this hung: closing waited for the lock that starting a thread held.
    subprocess.run([sys.executable, "-c", ABANDONED], check=True, timeout=60)


def test_an_error_arrives_after_the_values_before_it() -> None:
    def values():
        yield 1
        raise ValueError("the second value is broken")

    ahead = made_ahead(values(), depth=3)
    assert next(ahead) == 1
    with pytest.raises(ValueError, match="second value"):
        next(ahead)


def test_values_that_nobody_wants_any_more_are_closed_at_once() -> None:
    closed = []

    def values():
        try:
            yield from range(100)
        finally:
            closed.append(True)

    ahead = made_ahead(values(), depth=2)
    assert next(ahead) == 0
    ahead.close()
    assert closed
