"""Offsets δ that a link takes as given: per item, or per item and time bin."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from slc_ops.methods.fitting.calibration import Cells
from slc_ops.numerics.kernels import Floats
from slc_ops.rows.rows import NO_COLUMNS, TIME, Columns, Rows


class Offsets(Protocol):
    """δ of each row."""

    @property
    def columns(self) -> Columns: ...

    def of(self, rows: Rows) -> Floats: ...


@dataclass(frozen=True)
class NoOffsets:
    """δ = 0."""

    columns: Columns = NO_COLUMNS

    def of(self, rows: Rows) -> Floats:
        return np.zeros(len(rows))


@dataclass(frozen=True)
class ItemOffsets:
    """δ by item code."""

    values: Floats
    columns: Columns = NO_COLUMNS

    def of(self, rows: Rows) -> Floats:
        return self.values.take(rows.codes, mode="clip")


@dataclass(frozen=True)
class CellOffsets:
    """δ by item code and time bin."""

    values: Floats
    cells: Cells
    columns: Columns = TIME

    def of(self, rows: Rows) -> Floats:
        return self.values.ravel().take(self.cells.of(rows), mode="clip")
