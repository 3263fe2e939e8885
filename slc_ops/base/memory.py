"""Memory of the process: Arrow's allocator, and returning memory to the system.

Arrow's default allocator returns memory to the system after each batch, so the next batch pays for every page
again. Reading 20 million rows and fitting ``slc`` spent more than half of its time on this. The system's
allocator keeps the memory for the next batch.
"""

import ctypes
import os
import sys

VARIABLE = "ARROW_DEFAULT_MEMORY_POOL"


def keep_memory_between_batches() -> None:
    """Use the system's allocator for Arrow in this process, unless the user set ``VARIABLE``.

    For programs (the command line, a task), never for an imported library: the choice belongs to the process.
    """
    if VARIABLE in os.environ:
        return
    os.environ[VARIABLE] = "system"  # Arrow reads it on load, here and in child processes
    if "pyarrow" in sys.modules:
        import pyarrow as pa

        pa.set_memory_pool(pa.system_memory_pool())


def give_memory_back() -> None:
    """Return free memory to the system (``malloc_trim``); do nothing where the C library has no such call.

    After a step that read five million rows this frees half a gigabyte.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)
