"""Canaries: a stable share of users who get the challenger's probabilities."""

import logging
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slc_ops.base.errors import InputError, SettingsError
from slc_ops.base.hashing import shares_of
from slc_ops.parameters.effects import COLUMNS
from slc_ops.rows.frames import column_array
from slc_ops.serving.answers import Columns
from slc_ops.serving.follower import Follower
from slc_ops.serving.pointer import Retired
from slc_ops.serving.snapshot import Snapshot

_log = logging.getLogger(__name__)


class Canary:
    """The challenger, and the choice of its rows: ids whose hash is below ``share``.

    The hash depends only on the id and the deployment: all hosts choose the same ids, a restart changes no
    arm, a larger share keeps the chosen ids, and deployments choose independently.
    """

    def __init__(self, share: float, by: str, deployment: str, follower: Follower) -> None:
        if not 0 < share <= 1:
            raise SettingsError(f"canary is {share!r}; expected a share above 0 and at most 1, such as 0.05")
        if by not in COLUMNS:
            raise SettingsError(f"canaries are chosen by {by!r:.40}; expected {', '.join(COLUMNS)}")
        self._share, self._by, self._follower = share, by, follower
        self._salt = f"canary of {deployment}"
        self._snapshot: Snapshot | None = None

    def beside(self, champion: Snapshot) -> Snapshot | None:
        """Return the challenger; None without one, if it is the champion, and after a retirement."""
        found = self._snapshot
        if found is None or isinstance(champion.pointer, Retired) or found.version == champion.version:
            return None
        return found

    def chosen(self, columns: Columns) -> NDArray[np.bool_]:
        """Return a mask of the rows that the challenger answers."""
        count, ids = len(columns.logits), columns.ids.get(self._by)
        if ids is None:
            return np.zeros(count, np.bool_)
        ids = column_array(ids, COLUMNS[self._by])
        if isinstance(ids, pa.ChunkedArray):
            ids = ids.combine_chunks()
        if len(ids) != count:
            raise InputError(f"{len(ids)} {self._by} ids for {count} rows; expected one for each")
        if pa.types.is_dictionary(ids.type):
            ids = ids.dictionary_decode()
        if not (pa.types.is_null(ids.type) or pa.types.is_integer(ids.type) or _is_text(ids.type)):
            raise InputError(f"{self._by} ids are of type {ids.type}; expected texts or integers")
        return shares_of(ids, self._salt) < self._share

    def refresh(self) -> None:
        """Read the challenger's alias; if the registry is unreachable, keep the last challenger."""
        before = self._snapshot
        self._snapshot = self._follower.next(before)
        if before is not None and self._snapshot is None:
            _log.info("version %s is no challenger any more", before.version)

    def as_dict(self, champion: Snapshot) -> dict[str, Any]:
        """Return the state for :meth:`Corrector.health`; ``version`` is None without a challenger."""
        found = self.beside(champion)
        state = {"share": self._share, "by": self._by, **self._follower.health()}
        return state | ({"version": None} if found is None else found.as_dict())


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))
