"""Memory of a process of ours: which allocator Arrow uses, and when memory goes back to the system.

Arrow's own default gives memory back to the system as soon as a batch is done with; the next batch then pays
for every page again. Reading 20 million rows and fitting ``slc`` spent more than half of its time there. The
system's allocator keeps what it has for the next batch.
"""

import ctypes
import os
import sys

VARIABLE = "ARROW_DEFAULT_MEMORY_POOL"


def keep_memory_between_batches() -> None:
    """Let Arrow use the system's allocator in this process, unless the user has named one by ``VARIABLE``.

    For programs (the command line, a task), never for a library that somebody imports: the choice is the
    process's, not ours.
    """
    if VARIABLE in os.environ:
        return
    os.environ[VARIABLE] = "system"  # read by Arrow when it is loaded, here and in processes that we start
    if "pyarrow" in sys.modules:
        import pyarrow as pa

        pa.set_memory_pool(pa.system_memory_pool())


def give_memory_back() -> None:
    """Return to the system what the last step has left behind; where the C library cannot, nothing happens.

    Of a step that has read five million rows that is half a gigabyte, which the next one would pile upon.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)
