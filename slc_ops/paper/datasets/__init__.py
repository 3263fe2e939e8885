"""Readers of public data sets in their published formats."""

from collections.abc import Callable, Sequence
from pathlib import Path

from slc_ops.paper.datasets.algebra import read_algebra
from slc_ops.paper.datasets.assistments import read_assistments2009, read_assistments2017
from slc_ops.paper.datasets.eedi import read_eedi
from slc_ops.paper.datasets.published import Published

READERS: dict[str, Callable[[Sequence[Path]], Published]] = {
    "assistments2009": read_assistments2009,
    "assistments2017": read_assistments2017,
    "algebra": read_algebra,
    "eedi": read_eedi,
}
