"""The Arrow allocator: ours in our own programs, the user's choice elsewhere."""

import os
import subprocess
import sys

import pytest

ASK = "import pyarrow as pa; print(pa.default_memory_pool().backend_name)"
CHOOSE = "from slc_ops.base.memory import keep_memory_between_batches as keep; "


def backend(code: str, named: str | None = None) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "ARROW_DEFAULT_MEMORY_POOL"}
    environment |= {} if named is None else {"ARROW_DEFAULT_MEMORY_POOL": named}
    asked = [sys.executable, "-c", code]
    return subprocess.run(asked, env=environment, check=True, capture_output=True, text=True).stdout.strip()


@pytest.mark.parametrize("order", [CHOOSE + "keep(); " + ASK, "import pyarrow; " + CHOOSE + "keep(); " + ASK])
def test_our_programs_keep_memory_between_batches(order: str) -> None:
    assert backend(order) == "system"


def test_the_users_choice_is_kept() -> None:
    assert backend(CHOOSE + "keep(); " + ASK, named="mimalloc") == "mimalloc"


def test_importing_the_library_changes_no_allocator() -> None:
    assert backend("import slc_ops.methods, slc_ops.serving; " + ASK) == backend(ASK)
