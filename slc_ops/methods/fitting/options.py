"""What a fit may be told."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from slc_ops.base.errors import SettingsError
from slc_ops.base.ids import IdIndex
from slc_ops.numerics.kernels import Floats
from slc_ops.rows.passes import workers


@dataclass(frozen=True, eq=False)
class EarlierOffsets:
    """What ``slc_eb`` had learned of the items under another backbone.

    >>> known = EarlierOffsets("gru-7", pa.array(["b", "a"]), np.array([0.5, -1.0]))
    >>> known.of(pa.array(["a", "new", "b"])).tolist()
    [-1.0, 0.0, 0.5]
    """

    backbone_version: str
    items: pa.Array
    offset: Floats

    def of(self, items: pa.Array) -> Floats:
        """The offsets of these items; 0 where nothing was known, or ids are of another type."""
        if pa.types.is_integer(self.items.type) != pa.types.is_integer(items.type):
            return np.zeros(len(items))
        found: Floats = np.append(self.offset, 0.0)[IdIndex(self.items).positions(items)]
        return found


@dataclass(frozen=True)
class FitOptions:
    """Options of every fit; a value that cannot be used is refused, never replaced.

    >>> FitOptions(prior_var=-1)
    Traceback (most recent call last):
    slc_ops.base.errors.SettingsError: prior_var is -1; expected a finite number greater than 0
    """

    prior_var: float = 1.0
    time_bins: int = 10
    threads: int | None = None
    earlier: EarlierOffsets | None = None
    """What an earlier backbone's rows said of the items; ``slc_eb`` may begin from it."""

    def __post_init__(self) -> None:
        if not 0 < self.prior_var < float("inf"):
            raise SettingsError(f"prior_var is {self.prior_var}; expected a finite number greater than 0")
        if self.time_bins < 2:
            raise SettingsError(f"time_bins is {self.time_bins}; expected 2 or more")
        if self.threads is not None and self.threads < 1:
            raise SettingsError(f"threads is {self.threads}; expected 1 or more, or None for all cores")

    @property
    def workers(self) -> int:
        """Threads to use: as told, otherwise one per core this process may run on."""
        return workers(self.threads)
