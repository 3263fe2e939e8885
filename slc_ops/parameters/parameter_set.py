"""The parameter set: everything a fit learned, and how it turns logits into probabilities."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slc_ops.base.errors import InputError
from slc_ops.base.methods import METHODS
from slc_ops.base.window import Window
from slc_ops.numerics.curves import Affine, AffineInTime, Curve
from slc_ops.numerics.kernels import SLICE_ROWS, Floats, slices
from slc_ops.numerics.time_bins import time_bin
from slc_ops.rows.buffers import as_arrow, as_numpy
from slc_ops.rows.interactions import InteractionLog
from slc_ops.rows.item_index import ItemIndex
from slc_ops.rows.passes import in_spans, workers
from slc_ops.rows.rows import NO_COLUMNS, TIME, Columns, Rows

Positions = NDArray[Any]


@dataclass(frozen=True)
class PriorMean:
    """An earlier backbone's offsets as the prior mean of this one's, and what held-out rows said of it."""

    backbone_version: str
    share: float
    gain: float
    """In NLL per held-out row, against prior mean 0."""

    @property
    def sentence(self) -> str:
        """For reports and model cards.

        >>> PriorMean("gru-7", 0.5, 0.0031).sentence
        'Begins from 0.5 of the offsets of backbone gru-7: NLL 0.0031 lower on held-out rows of its own.'
        """
        return (
            f"Begins from {self.share:g} of the offsets of backbone {self.backbone_version}: "
            f"NLL {self.gain:.4f} lower on held-out rows of its own."
        )


@dataclass(frozen=True)
class Provenance:
    """Where a parameter set comes from; all optional for sets fitted by hand."""

    deployment: str | None = None
    window: Window | None = None
    backbone_version: str | None = None
    input_digest: str | None = None
    config_digest: str | None = None
    code_version: str | None = None
    on_backbone_mismatch: str | None = None
    """What a server does with rows of another backbone, where the deployment says so."""
    prior_mean: PriorMean | None = None
    """Where the offsets were shrunk towards those of an earlier backbone."""


@dataclass(frozen=True)
class ParameterSet:
    """A fitted method.

    ``items`` has one row per item (per item and time bin when ``time_edges`` is set), sorted by item id:
    ``item_id``, ``offset`` δ, ``offset_var`` (posterior variance), ``n_obs`` (Σ weight), ``fisher_weight`` W
    and ``shrinkage`` λ. It is None for methods that look at the score alone. Items that are not in it (cold
    start) get δ = 0, or the line ``cold`` where there is one: σ(a·η₀ + b₀) with its own a and b₀.

    >>> items = pa.table({"item_id": ["a"], "offset": [1.0]})
    >>> parameters = ParameterSet(method="slc", link=Affine(a=1.0, b0=0.0), items=items)
    >>> parameters.correct(["a", "new"], [0.0, 0.0]).round(4).tolist()
    [0.7311, 0.5]
    >>> replace(parameters, cold=Affine(a=1.0, b0=-1.0)).correct(["a", "new"], [0.0, 0.0]).round(4).tolist()
    [0.7311, 0.2689]
    """

    method: str
    link: Curve
    items: pa.Table | None = None
    prior_var: float | None = None
    time_edges: Floats | None = None
    n_rows: int = 0
    n_items: int = 0
    warnings: tuple[str, ...] = ()
    provenance: Provenance = field(default_factory=Provenance)
    cold: Affine | None = None

    def with_provenance(self, **known: Any) -> "ParameterSet":
        """The same parameters, with (more of) their origin filled in."""
        return replace(self, provenance=replace(self.provenance, **known))

    def same_answers(self, other: "ParameterSet") -> bool:
        """Whether both sets answer every row alike, bit for bit, wherever they come from."""
        if self.items is None or other.items is None:
            same_items = self.items is other.items
        else:
            same_items = self.items.equals(other.items)
        return same_items and self._but_items() == other._but_items()

    def _but_items(self) -> tuple[Any, ...]:
        edges = None if self.time_edges is None else self.time_edges.tolist()
        return self.method, self.link.as_dict(), edges, self.cold

    def affine(self) -> dict[str, float] | None:
        """``{a, b0}`` of methods that fitted them, otherwise None.

        A method that this release does not know is taken to have fitted what it wrote.
        """
        method = METHODS.get(self.method)
        if not isinstance(self.link, Affine | AffineInTime) or (method is not None and not method.fits_link):
            return None
        return {"a": self.link.a, "b0": self.link.b0}

    # --- prediction -----------------------------------------------------------------------------------

    def apply(self, log: InteractionLog, *, threads: int | None = None, out: Floats | None = None) -> Floats:
        """Corrected probabilities of a log's rows, in row order."""
        apply, result = self.on(log.items), np.empty(log.n_rows) if out is None else out

        def work(first: int, last: int) -> None:
            apply.of(log.rows(first, last, apply.columns), out=result[first:last])

        for _ in in_spans(work, log.n_rows, workers(threads)):
            pass
        return result

    def on(self, items: pa.Array) -> "Apply":
        """The same for rows whose codes are indices into these items: ids are looked up once per item."""
        columns = TIME if self.needs_time else NO_COLUMNS
        if self._index is None:
            return Apply(self.link, None, self.time_edges, columns)
        positions = self._index.positions(items)
        unknown = None if self._cold_shift is None else positions < 0
        return Apply(self.link, self._offsets[positions], self.time_edges, columns, self._cold_shift, unknown)

    @property
    def needs_time(self) -> bool:
        """Whether the event time of a row matters."""
        return self.time_edges is not None or isinstance(self.link, AffineInTime)

    def correct(
        self, item_ids: Any, logits: Any, time: Any = None, *, look: Callable[[Positions], None] | None = None
    ) -> Floats:
        """The same for plain arrays; without ``time`` the last time bin counts.

        ``look`` is shown where the items were found, −1 for unknown ones; methods without items look none up.
        """
        values = np.asarray(logits, dtype=np.float64)
        if values.ndim != 1 or len(values) != len(item_ids):
            raise InputError(
                f"{len(item_ids)} item ids and logits of shape {values.shape}; expected equal lengths"
            )
        if not np.isfinite(values).all():
            raise InputError(
                f"logit {int(np.argmin(np.isfinite(values)))} is NaN or infinite; expected numbers"
            )
        times = None if time is None else np.asarray(time, dtype=np.float64)
        if self._index is None:
            return self.link.probability(values, 0.0, times)
        positions = self._index.positions(item_ids)
        if look is not None:
            look(positions)
        if len(values) <= SLICE_ROWS:
            return self.link.probability(values, self._pick(positions, times, values), times)
        result = np.empty(len(values))
        for part in slices(len(values)):
            then = None if times is None else times[part]
            offset = self._pick(positions[part], then, values[part])
            result[part] = self.link.probability(values[part], offset, then)
        return result

    def correct_one(
        self,
        item_id: Any,
        logit: float,
        time: float | None = None,
        *,
        look: Callable[[int], None] | None = None,
    ) -> float:
        """The same for one row, as a server asks: no arrays of ids, no conversion of types."""
        value = float(logit)
        if not isfinite(value):
            raise InputError(f"logit {logit!r} is NaN or infinite; expected a number")
        then = None if time is None else np.array([time], dtype=np.float64)
        offset = 0.0
        if self._index is not None:
            position = self._index.position(item_id)
            if look is not None:
                look(position)
            if self.time_edges is not None:
                offset = float(pick(self._offsets, np.array([position]), then, self.time_edges)[0])
            elif position < 0 and self._cold_shift is not None:
                offset = self._cold_shift.of(value)
            else:
                offset = self._offsets.item(position)
        if isinstance(self.link, Affine):
            return self.link.probability_of_one(value, offset)
        return float(self.link.probability(np.array([value]), offset, then)[0])

    def _pick(self, positions: NDArray[Any], time: Floats | None, logit: Floats) -> Floats:
        offset = pick(self._offsets, positions, time, self.time_edges)
        return offset if self._cold_shift is None else self._cold_shift.into(offset, positions < 0, logit)

    @cached_property
    def _cold_shift(self) -> "ColdShift | None":
        if self.cold is None:
            return None
        if not isinstance(self.link, Affine) or self.time_edges is not None or self.items is None:
            raise ValueError(f"{self.method} has a line for unknown items, but no line of known ones")
        return ColdShift(self.cold.a - self.link.a, self.cold.b0 - self.link.b0)

    @cached_property
    def _index(self) -> ItemIndex | None:
        if self.items is None:
            return None
        ids = self.items.column("item_id").combine_chunks()
        return ItemIndex(ids if self._bins == 1 else ids.take(as_arrow(np.arange(0, len(ids), self._bins))))

    @property
    def _bins(self) -> int:
        return 1 if self.time_edges is None else len(self.time_edges) - 1

    @cached_property
    def _offsets(self) -> Floats:
        """δ in the order of the index; the last one is the 0 of unknown items, whose position is −1."""
        if self.items is None or self._index is None:
            raise ValueError(f"{self.method} has no items")
        offset = as_numpy(self.items.column("offset"))
        if self.time_edges is None:
            return np.append(offset[self._index.order], 0.0)
        return np.vstack([offset.reshape(-1, self._bins)[self._index.order], np.zeros(self._bins)])

    # --- storage --------------------------------------------------------------------------------------

    def write(self, directory: Path) -> None:
        """Write ``params.json``, ``items.parquet`` and ``golden.json``; whole or not at all."""
        from slc_ops.parameters.storage import write

        write(self, directory)

    @classmethod
    def read(cls, directory: Path) -> "ParameterSet":
        """Read and verify a directory: schema version, digests, golden vectors."""
        from slc_ops.parameters.storage import read

        return read(directory)


@dataclass(frozen=True)
class ColdShift:
    """What turns the line of known items into the line of unknown ones: an offset that grows with η₀."""

    a: float
    b0: float

    def of(self, logit: float) -> float:
        """δ of an unknown item at one logit."""
        return self.a * logit + self.b0

    def into(self, offset: Floats, unknown: NDArray[np.bool_], logit: Floats) -> Floats:
        """The offsets of rows, with those of unknown items filled in."""
        return np.where(unknown, self.a * logit + self.b0, offset)


@dataclass(frozen=True)
class Apply:
    """A parameter set made ready for the rows of one log: offsets by item code.

    ``unknown`` marks the codes of unknown items, which get ``cold`` where there is such a line.
    """

    link: Curve
    offsets: Floats | None
    time_edges: Floats | None
    columns: Columns
    cold: ColdShift | None = None
    unknown: NDArray[np.bool_] | None = None

    def of(self, rows: Rows, out: Floats | None = None) -> Floats:
        """Corrected probabilities."""
        return self._each(self.link.probability, rows, out)

    def score(self, rows: Rows) -> Floats:
        """Numbers that order the rows as their corrected probabilities do."""
        return self._each(self.link.score, rows, None)

    def _each(self, formula: Callable[..., Floats], rows: Rows, out: Floats | None) -> Floats:
        result = np.empty(len(rows)) if out is None else out
        for part in slices(len(rows)):
            time = None if rows.time is None else rows.time[part]
            logit = rows.logit[part].astype(np.float64)
            offset: Floats | float = 0.0
            if self.offsets is not None:
                offset = pick(self.offsets, rows.codes[part], time, self.time_edges)
                if self.cold is not None and self.unknown is not None:
                    offset = self.cold.into(offset, self.unknown.take(rows.codes[part]), logit)
            result[part] = formula(logit, offset, time)
        return result


def pick(offsets: Floats, positions: NDArray[Any], time: Floats | None, time_edges: Floats | None) -> Floats:
    """δ at ``positions``, in the time bin of each row (the last bin without times)."""
    if time_edges is None:
        return offsets.take(positions)
    # One index into the flat table; the position −1 of an unknown item counts from its end, as it should.
    bins = len(time_edges) - 1
    cells = positions * np.intp(bins)
    cells += bins - 1 if time is None else time_bin(time, time_edges)
    return offsets.ravel().take(cells)
