"""Memory of the process: Arrow's allocator, returning memory to the system, errors for lack of memory.

Arrow's default allocator returns memory to the system after each batch, so the next batch pays for every page
again. Reading 20 million rows and fitting ``slc`` spent more than half of its time on this. The system's
allocator keeps the memory for the next batch.
"""

import ctypes
import os
import sys

VARIABLE = "ARROW_DEFAULT_MEMORY_POOL"
SIGNS = ("failed to map segment", "can't start new thread")
"""Texts of errors of the loader and of threads without address space."""


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


def is_out_of_memory(error: Exception) -> bool:
    """Return True if an error comes from lack of memory.

    Under a limit of the address space (``ulimit -v``) libraries fail to load in any way; within the last
    quarter of such a limit, every unexpected error counts.
    """
    if isinstance(error, MemoryError) or any(sign in str(error) for sign in SIGNS):
        return True
    if sys.platform != "linux":
        return False
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/status", encoding="ascii") as status:
        peak = next(int(line.split()[1]) << 10 for line in status if line.startswith("VmPeak:"))
    return limit != resource.RLIM_INFINITY and peak > 0.75 * limit
