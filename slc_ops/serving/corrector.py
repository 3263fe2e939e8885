"""The corrector: apply the champion's correction where predictions are served.

>>> corrector = Corrector.from_registry("http://127.0.0.1:5000", "demo")      # doctest: +SKIP
>>> corrector.correct("item-17", 0.3)                                         # doctest: +SKIP
0.5912…
>>> corrector.correct(["item-17", "item-4"], [0.3, -1.2])                     # doctest: +SKIP
array([0.591…, 0.244…])
"""

import logging
import random
import threading
from functools import partial
from pathlib import Path
from typing import Any, Self, overload

import numpy as np
from numpy.typing import NDArray

from slc_ops.base.errors import InputError
from slc_ops.base.names import model_name
from slc_ops.parameters.effects import COLUMNS
from slc_ops.serving.answers import (
    Answer,
    Columns,
    Part,
    answer_part,
    answer_parts,
    by_backbone,
    correct_row,
    correct_rows,
)
from slc_ops.serving.cache import Cache, default_cache
from slc_ops.serving.canary import Canary
from slc_ops.serving.exposition import exposition
from slc_ops.serving.follower import Follower
from slc_ops.serving.snapshot import Snapshot
from slc_ops.serving.sources import Bounded, open_source, registry_name

Floats = NDArray[np.float64]
_log = logging.getLogger(__name__)


class NotServed(InputError):
    """The requested version does not serve here."""


_NOT_ROWS = (TypeError, ValueError, OverflowError)
"""Errors of NumPy and Arrow on values that are no ids, logits or times."""


def _not_rows(error: Exception) -> InputError:
    return InputError(f"ids, logits or times cannot be understood: {error}")


def _given(items: Any, groups: Any, users: Any) -> dict[str, Any]:
    """Return the ids that are there, by effect."""
    ids = {} if items is None else {"item": items}
    if groups is not None:
        ids["group"] = groups
    if users is not None:
        ids["user"] = users
    return ids


class Corrector:
    """Correct logits with a parameter set that has passed its golden vectors.

    The current set is one reference: each call reads it once, the watcher replaces it with another verified
    set. No call takes a lock.
    """

    def __init__(
        self, snapshot: Snapshot, follower: Follower | None = None, canary: Canary | None = None
    ) -> None:
        self._snapshot = snapshot
        self._follower = follower
        self._canary = canary
        self._refreshing, self._closed = threading.Lock(), threading.Event()
        self._watcher: threading.Thread | None = None

    @classmethod
    def from_directory(cls, directory: str | Path) -> Self:
        """Serve a parameter set from a directory; schema version, digests and golden vectors are verified."""
        return cls(Snapshot.read(Path(directory)))

    @classmethod
    def from_registry(
        cls,
        tracking_uri: str,
        deployment: str,
        alias: str = "champion",
        *,
        cache: str | Path | None = None,
        interval: float | None = 30.0,
        timeout: float = 5.0,
        deadline: float | None = None,
        schema: str | None = None,
        canary: float | None = None,
        by: str = "user",
    ) -> Self:
        """Serve the version of an alias, and follow the alias.

        If the registry is unreachable, the last set of this host serves from ``cache``. After a retirement
        the frozen probabilities are served, as :meth:`health` reports; a missing alias alone is not a
        retirement.

        Args:
            tracking_uri: MLflow's address, or that of its separate registry.
            interval: Seconds between two checks of the alias; None: never.
            timeout: Seconds without a byte after which a check fails.
            deadline: Seconds for a whole check; ten times ``timeout`` by default.
            schema: ``catalog.schema`` of models with three-level names.
            canary: Share of users who get the challenger's probabilities, the same users on every host.
                Missing ids, and all users after a retirement, get the champion's.
            by: Effect for choosing canaries: ``user``, ``item`` or ``group``.

        Raises:
            RegistryError: The registry is unreachable and the cache is empty.
        """
        root = default_cache() if cache is None else Path(cache)
        patience = None if interval is None else 3 * interval + 60

        def follow(alias: str) -> Follower:
            source = open_source(tracking_uri, deployment, alias, timeout, schema)
            kept = Cache(root, registry_name(tracking_uri), model_name(deployment, schema), alias)
            bounded = Bounded(source, 10 * timeout if deadline is None else deadline)
            return Follower(bounded, kept, deployment, alias, patience)

        follower = follow(alias)
        some = None if canary is None else Canary(canary, by, deployment, follow("challenger"))
        corrector = cls(follower.first(), follower, some)
        if some is not None:
            some.refresh()
        if interval is not None:
            watch = partial(corrector._watch, interval)
            corrector._watcher = threading.Thread(target=watch, name="slc-ops-watch", daemon=True)
            corrector._watcher.start()
        return corrector

    @overload
    def correct(
        self,
        items: str | int,
        logits: float,
        time: float | None = None,
        *,
        groups: str | int | None = None,
        users: str | int | None = None,
        backbone_version: str | None = None,
    ) -> float: ...
    @overload
    def correct(
        self,
        items: Any,
        logits: Any,
        time: Any = None,
        *,
        groups: Any = None,
        users: Any = None,
        backbone_version: str | None = None,
    ) -> Floats: ...
    def correct(
        self,
        items: Any,
        logits: Any,
        time: Any = None,
        *,
        groups: Any = None,
        users: Any = None,
        backbone_version: str | None = None,
    ) -> float | Floats:
        """Return corrected probabilities: an array for arrays, a number for one item and its logit.

        Args:
            items: Ids; an unknown or missing id adds no offset, and is counted.
            logits: Finite logits of the frozen model.
            time: Event times, for methods with time.
            groups: Ids, used only if the method has group effects.
            users: Ids, used only if the method has user effects.
            backbone_version: The model version of these logits. Another version than that of the fit follows
                the deployment's rule: frozen probability (default), error, or correction; it is counted and
                logged.

        Raises:
            InputError: The input is not ids and finite logits.
            BackboneMismatch: The deployment's rule refuses other backbones.
        """
        single = isinstance(items, str | int | np.integer) or (
            items is None and isinstance(logits, int | float)
        )
        columns = Columns(logits, _given(items, groups, users), time)
        if self._canary is not None:
            listed = columns.listed() if single else columns
            found = self.answer_columns(listed, backbone_version).probability
            return found[0] if single else np.asarray(found)
        try:
            if single:
                return correct_row(self._snapshot, columns, backbone_version)[0]
            return correct_rows(self._snapshot, columns, backbone_version)[0]
        except _NOT_ROWS as error:
            raise _not_rows(error) from None

    def answer(
        self,
        items: Any,
        logits: Any,
        time: Any = None,
        *,
        groups: Any = None,
        users: Any = None,
        backbone_version: Any = None,
        interval: bool = False,
        version: int | None = None,
    ) -> Answer:
        """Return corrected probabilities with version, method and number of unknown ids.

        Args:
            backbone_version: One version for all rows, or one per row.
            interval: Add ``low`` and ``high``, the ends of the central 95 % of the offsets' posterior.
            version: Use this version for all rows; it must be one of :attr:`versions`.

        Returns:
            The answer; ``versions`` contains the version of each row if canaries are among them.

        Raises:
            NotServed: ``version`` does not serve here.
        """
        columns = Columns(logits, _given(items, groups, users), time)
        return self.answer_columns(columns, backbone_version, interval, version)

    def answer_columns(
        self, columns: Columns, backbone_version: Any, interval: bool = False, version: int | None = None
    ) -> Answer:
        """Do the same as :meth:`answer` for columns."""
        champion, one_backbone = self._snapshot, backbone_version is None or isinstance(backbone_version, str)
        challenger = None if self._canary is None else self._canary.beside(champion)
        if version is not None:
            served = [each for each in (champion, challenger) if each is not None and each.version == version]
            if not served:
                raise NotServed(f"version {version} is not served here; version {champion.version} is")
            champion, challenger = served[0], None
        try:
            if challenger is None and one_backbone:
                return answer_part(champion, columns, backbone_version, interval)
            count = len(columns.logits)
            chosen = np.zeros(count, np.bool_)
            if challenger is not None and self._canary is not None:
                chosen = self._canary.chosen(columns)
            parts: list[Part] = [
                (snapshot, rows, backbone)
                for backbone, mine in by_backbone(backbone_version, count)
                for snapshot, arm in ((champion, ~chosen), (challenger, chosen))
                if snapshot is not None and len(rows := np.flatnonzero(mine & arm))
            ]
            nothing: Part = (champion, np.empty(0, np.intp), None)
            return answer_parts(parts or [nothing], columns, interval)
        except _NOT_ROWS as error:
            raise _not_rows(error) from None

    @property
    def deployment(self) -> str:
        """The served deployment; ``model`` if a directory's set does not name one."""
        found = self._follower.deployment if self._follower else None
        return found or self._snapshot.parameters.provenance.deployment or "model"

    @property
    def versions(self) -> list[int]:
        """The serving versions: the champion's and, with canaries, the challenger's."""
        challenger = None if self._canary is None else self._canary.beside(self._snapshot)
        found = [self._snapshot.version, None if challenger is None else challenger.version]
        return [each for each in found if each is not None]

    @property
    def id_types(self) -> dict[str, str]:
        """Id column → its type, ``string`` or ``int64``, for each effect of the parameters."""
        effects = self._snapshot.parameters.effects
        return {COLUMNS[name]: str(each.table.schema.field("id").type) for name, each in effects.items()}

    def refresh(self) -> bool:
        """Check the registry now; return True if another set serves. Failures appear in :meth:`health`."""
        if self._follower is None:
            return False
        with self._refreshing:  # the watcher, a webhook and a person may call at the same time
            before = self._snapshot
            self._snapshot = self._follower.next(before) or before
            if self._canary is not None:
                self._canary.refresh()
            return self._snapshot is not before

    def _watch(self, interval: float) -> None:
        """Check the registry every ``interval`` seconds, with a random jitter of 20 %, until closed."""
        # The jitter spreads the requests of hosts that started together; it needs no cryptographic
        # randomness.
        while not self._closed.wait(interval * random.uniform(0.8, 1.2)):  # noqa: S311 - no secret
            try:
                self.refresh()
            except Exception:  # without a watcher the server would keep its old set
                _log.exception("polling the alias failed unexpectedly; polling continues")

    def health(self) -> dict[str, Any]:
        """Return the served version, its load time and the registry's state, for a health endpoint."""
        follower, snapshot = self._follower, self._snapshot
        found = snapshot.as_dict() | ({"status": "ok"} if follower is None else follower.health())
        return found if self._canary is None else found | {"canary": self._canary.as_dict(snapshot)}

    def metrics(self) -> str:
        """Return counts and the served version in Prometheus' text format, for ``/metrics``."""
        return exposition(self.health())

    def close(self) -> None:
        """Stop watching, after a running check; the corrector keeps serving its current set."""
        self._closed.set()
        if self._watcher is not None:
            self._watcher.join(timeout=10)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
