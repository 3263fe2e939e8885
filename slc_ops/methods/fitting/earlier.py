"""Offsets of an earlier backbone, that may serve as the prior mean of a new one's."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from slc_ops.numerics.kernels import Floats
from slc_ops.rows.item_index import ItemIndex


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
        index = ItemIndex(self.items)
        found: Floats = np.append(self.offset[index.order], 0.0)[index.positions(items)]
        return found
