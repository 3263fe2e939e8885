"""The corrector: the champion's correction, applied where predictions are served.

>>> corrector = Corrector.from_registry("http://127.0.0.1:5000", "demo")      # doctest: +SKIP
>>> corrector.correct("item-17", 0.3)                                         # doctest: +SKIP
0.5912…
>>> corrector.correct(["item-17", "item-4"], [0.3, -1.2])                     # doctest: +SKIP
array([0.591…, 0.244…])
"""

import logging
from pathlib import Path
from typing import Any, Self, overload

import numpy as np
from numpy.typing import NDArray

from slc_ops.base.errors import BackboneMismatch, InputError, RegistryError, SlcError
from slc_ops.base.names import model_name
from slc_ops.numerics.curves import Affine
from slc_ops.parameters.effects import COLUMNS, Positions
from slc_ops.parameters.parameter_set import ParameterSet
from slc_ops.serving.cache import Cache, default_cache
from slc_ops.serving.counts import EXAMPLES, Missed, mismatch_sentence
from slc_ops.serving.pointer import Named, Pointer, Retired, check_may_follow
from slc_ops.serving.snapshot import Snapshot
from slc_ops.serving.sources import Bounded, open_source, registry_name
from slc_ops.serving.watch import Health, Watcher

Floats = NDArray[np.float64]
_log = logging.getLogger(__name__)


class Corrector:
    """Corrects logits with a parameter set that has passed its own golden vectors.

    The set in use is one reference: a reader takes it once per call, the watcher replaces it with another
    verified set. Nobody waits for anybody.
    """

    def __init__(self, snapshot: Snapshot, follower: "_Follower | None" = None) -> None:
        self._snapshot = snapshot
        self._follower = follower
        self._watcher: Watcher | None = None

    @classmethod
    def from_directory(cls, directory: str | Path) -> Self:
        """Serve a parameter set from a directory (digests, schema version and golden vectors verified)."""
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
    ) -> Self:
        """Serve what an alias points to, and follow it every ``interval`` seconds (never, with None).

        A look at the registry that gets no byte for ``timeout`` seconds, or that takes longer than
        ``deadline`` in all (ten times ``timeout`` by default), has failed.

        ``tracking_uri`` is MLflow's address, of its registry where that is another one; ``schema`` the
        ``catalog.schema`` of models whose names have three levels.

        When the registry does not answer, the set that served last on this host is taken from ``cache``;
        without one there is nothing to serve, and that is an error. A champion that was retired leaves the
        frozen probabilities, and :meth:`health` says so; an alias that is merely missing does not.
        """
        source = Bounded(
            open_source(tracking_uri, deployment, alias, timeout, schema),
            10 * timeout if deadline is None else deadline,
        )
        root = default_cache() if cache is None else Path(cache)
        patience = None if interval is None else 3 * interval + 60
        health = Health(deployment, alias, patience)
        kept = Cache(root, registry_name(tracking_uri), model_name(deployment, schema), alias)
        follower = _Follower(source, kept, health, deployment)
        corrector = cls(follower.first(), follower)
        if interval is not None:
            corrector._watcher = Watcher(corrector.refresh, interval)
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
        """Corrected probabilities: an array for arrays, a number for one item and its logit.

        ``groups`` and ``users`` are looked at where the method corrects by them. An id that is missing or
        that the parameters do not know adds nothing, and is counted.

        ``backbone_version`` is the version of the model that made these logits. Where it is not the one that
        the parameters were fitted for, the deployment's rule says what happens: the frozen probability (the
        default), :class:`~slc_ops.base.errors.BackboneMismatch`, or the correction nevertheless; each way it
        is counted, logged and said by :meth:`health`.

        Raises :class:`~slc_ops.base.errors.InputError` for anything that is not ids and finite logits.
        """
        snapshot = self._snapshot
        parameters, counts = snapshot.parameters, snapshot.counts
        if backbone_version is not None and backbone_version != (
            fitted := parameters.provenance.backbone_version
        ):
            parameters = _for_another(snapshot, fitted, backbone_version, logits)
        try:
            if isinstance(items, str | int | np.integer) or (
                items is None and isinstance(logits, int | float)
            ):
                unknown: dict[str, Missed] = {}

                def look_at_one(name: str, position: int) -> None:
                    if position < 0:
                        one = items if name == "item" else groups if name == "group" else users
                        unknown[name] = 1, () if one is None else (one,)

                one = parameters.correct_one(items, logits, time, group=groups, user=users, look=look_at_one)
                counts.add(1, unknown)
                return one
            if items is not None and (isinstance(items, bytes | bytearray) or not hasattr(items, "__len__")):
                raise InputError(
                    f"item ids are {items!r:.60}, of type {type(items).__name__}; expected a text, an "
                    "integer, or an array of them"
                )
            missed: dict[str, Missed] = {}

            def look(name: str, positions: Positions) -> None:
                if positions.min(initial=0) < 0:
                    rows = np.flatnonzero(positions < 0)
                    ids = {"item": items, "group": groups, "user": users}[name]
                    missed[name] = len(rows), [] if ids is None else _some(ids, rows)

            many = parameters.correct(items, logits, time, groups=groups, users=users, look=look)
            counts.add(len(many), missed)
            return many
        except (TypeError, ValueError, OverflowError) as error:  # NumPy's and Arrow's words for what they got
            raise InputError(f"ids, logits or times cannot be understood: {error}") from None

    @property
    def asks_for(self) -> list[str]:
        """The columns whose ids matter: ``item_id`` and so on."""
        return [COLUMNS[name] for name in self._snapshot.parameters.effects]

    def refresh(self) -> bool:
        """Ask the registry now; True when another set serves afterwards. Failures are in :meth:`health`."""
        if self._follower is None:
            return False
        found = self._follower.next(self._snapshot)
        if found is None:
            return False
        self._snapshot = found
        return True

    def health(self) -> dict[str, Any]:
        """What is served, since when, and whether the registry agrees; JSON for a health endpoint."""
        follower, snapshot = self._follower, self._snapshot
        return snapshot.as_dict() | ({"status": "ok"} if follower is None else follower.health.as_dict())

    def metrics(self) -> str:
        """The counts and what is served, as text that Prometheus reads; for a server's ``/metrics``."""
        from slc_ops.serving.exposition import exposition

        return exposition(self.health())

    def close(self) -> None:
        """Stop watching; the corrector goes on serving what it has."""
        if self._watcher is not None:
            self._watcher.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


_FROZEN = ParameterSet("base", Affine())


def _for_another(snapshot: Snapshot, fitted: str | None, asked: str, logits: Any) -> ParameterSet:
    """The parameters for rows of another backbone than the set's, by the deployment's rule."""
    if not isinstance(asked, str):
        raise InputError(f"backbone_version is {asked!r:.60}; expected a text, one for all rows of a call")
    if fitted is None:
        return snapshot.parameters  # nobody knows what they were fitted for
    rows = len(logits) if hasattr(logits, "__len__") else 1
    snapshot.counts.mismatch(rows, asked, snapshot.rule)
    if snapshot.rule == "refuse":
        raise BackboneMismatch(mismatch_sentence(fitted, asked, "refuse"))
    return _FROZEN if snapshot.rule == "frozen" else snapshot.parameters


def _some(ids: Any, rows: Positions) -> list[Any]:
    """Some ids of a list, an array or a column at these rows, as Python's own types, without missing ones."""
    found = []
    for row in rows[:EXAMPLES].tolist():
        one = getattr(ids, "iloc", ids)[row]
        convert = getattr(one, "as_py", None) or getattr(one, "item", None)
        value = one if convert is None else convert()
        found += [value] if isinstance(value, str | int) else []
    return found


class _Follower:
    """Turns what the alias says into verified snapshots, and keeps book about it."""

    def __init__(self, source: Bounded, cache: Cache, health: Health, deployment: str) -> None:
        self._source, self._cache, self.health, self._deployment = source, cache, health, deployment

    def first(self) -> Snapshot:
        """The set to begin with: the registry's, or the one that served last on this host."""
        last = self._cache.last()
        self._source.begin()
        try:
            pointer = self._source.pointer()
            if last is not None:
                check_may_follow(last, pointer)
            snapshot = self._load(pointer)
        except SlcError as error:
            if last is None:
                raise
            self.health.failed(error)
            try:
                if isinstance(last, Retired):
                    return Snapshot.frozen(last, cached=True)
                return self._read(self._cache.directory(last), last, cached=True)
            except SlcError as second:
                raise RegistryError(f"{error}; and the cached {last.name}: {second}") from None
        self.health.agreed()
        return snapshot

    def next(self, current: Snapshot) -> Snapshot | None:
        """Another set that should serve instead, or None; the current one stays whatever happens."""
        self._source.begin()
        try:
            pointer = self._source.pointer()
            if current.pointer == pointer:
                self.health.agreed()
                return None
            if current.pointer is not None:
                check_may_follow(current.pointer, pointer)
            if current.pointer is not None and current.pointer.name == pointer.name:
                found = current.renamed(pointer)
                self._cache.remember(pointer)
            else:
                found = self._load(pointer)
        except SlcError as error:
            self.health.failed(error)
            return None
        self.health.agreed()
        return found

    def _load(self, pointer: Named) -> Snapshot:
        """Fetch, verify, remember; files that fail are dropped and fetched once more."""
        if isinstance(pointer, Retired):
            _log.warning("the champion was retired: the frozen probabilities are served from now on")
            self._cache.remember(pointer)
            return Snapshot.frozen(pointer)
        try:
            snapshot = self._read(self._cache.fetch(self._source, pointer), pointer)
        except SlcError:
            self._cache.forget(pointer)
            try:
                snapshot = self._read(self._cache.fetch(self._source, pointer), pointer)
            except SlcError:
                self._cache.forget(pointer)
                raise
        self._cache.remember(pointer)
        return snapshot

    def _read(self, directory: Path, pointer: Pointer, *, cached: bool = False) -> Snapshot:
        return Snapshot.read(directory, pointer, cached=cached, deployment=self._deployment)
