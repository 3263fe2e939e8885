"""The parameter set: everything a fit learned, and how it turns logits into probabilities."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from slc_ops.base.errors import InputError
from slc_ops.base.methods import METHODS
from slc_ops.base.window import Window
from slc_ops.numerics.curves import Affine, AffineInTime, Curve
from slc_ops.numerics.kernels import Floats, slices
from slc_ops.parameters.effects import COLUMNS, Added, ColdShift, Effect, Look, Lookup, Positions
from slc_ops.rows.interactions import InteractionLog
from slc_ops.rows.passes import in_spans, workers
from slc_ops.rows.rows import Columns, Log, Rows


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
    """A fitted method: a link, and effects by name (``item``, ``group``, ``user``).

    p = link(a·η₀ + b₀ + Σ effects). Methods that look at the score alone have no effect. The effect of an id
    that is not in its table (cold start) is 0; unknown items get the line ``cold`` where there is one:
    σ(a·η₀ + b₀) with its own a and b₀. Slopes multiply η₀ − ``logit_mean``.

    >>> from slc_ops.parameters.effects import by_item
    >>> items = by_item(pa.table({"id": ["a"], "offset": [1.0]}))
    >>> parameters = ParameterSet(method="slc", link=Affine(a=1.0, b0=0.0), effects=items)
    >>> parameters.correct(["a", "new"], [0.0, 0.0]).round(4).tolist()
    [0.7311, 0.5]
    >>> replace(parameters, cold=Affine(a=1.0, b0=-1.0)).correct(["a", "new"], [0.0, 0.0]).round(4).tolist()
    [0.7311, 0.2689]
    """

    method: str
    link: Curve
    effects: Mapping[str, Effect] = field(default_factory=dict)
    logit_mean: float = 0.0
    n_rows: int = 0
    n_items: int = 0
    warnings: tuple[str, ...] = ()
    provenance: Provenance = field(default_factory=Provenance)
    cold: Affine | None = None

    def with_provenance(self, **known: Any) -> "ParameterSet":
        """The same parameters, with (more of) their origin filled in."""
        return replace(self, provenance=replace(self.provenance, **known))

    def with_effect(self, name: str, effect: Effect) -> "ParameterSet":
        """The same parameters with one effect more, or another one."""
        return replace(self, effects={**self.effects, name: effect})

    @property
    def items(self) -> pa.Table | None:
        """The table of the items' effect; None where the method has none."""
        return self.effects["item"].table if "item" in self.effects else None

    @property
    def prior_var(self) -> float | None:
        """The prior variance of the items' offsets."""
        return self.effects["item"].prior_var if "item" in self.effects else None

    @property
    def time_edges(self) -> Floats | None:
        """The edges of the time bins of the items' offsets."""
        return self.effects["item"].time_edges if "item" in self.effects else None

    def same_answers(self, other: "ParameterSet") -> bool:
        """Whether both sets answer every row alike, bit for bit, wherever they come from."""
        mine, others = (
            (s.method, s.link.as_dict(), s.cold, s.logit_mean, set(s.effects)) for s in (self, other)
        )
        return mine == others and all(
            effect.same_answers(other.effects[name]) for name, effect in self.effects.items()
        )

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
        apply, result = self.on(log), np.empty(log.n_rows) if out is None else out

        def work(first: int, last: int) -> None:
            apply.of(log.rows(first, last, apply.columns), out=result[first:last])

        for _ in in_spans(work, log.n_rows, workers(threads)):
            pass
        return result

    def on(self, log: Log) -> "Apply":
        """The same for rows of a log, wherever they lie: ids are looked up once per id, not once per row."""
        columns: set[str] = {"time"} if self.needs_time else set()
        parts = []
        for each in self.lookups:
            if each.name == "item":
                ids = log.items
            else:
                columns.add(each.name)
                ids = log.groups if each.name == "group" else log.users
            if ids is not None:
                parts.append((_CODES[each.name], each.added.by_code(each.positions(ids))))
        return Apply(self.link, tuple(parts), columns)  # type: ignore[arg-type]  # names of columns

    @property
    def needs_time(self) -> bool:
        """Whether the event time of a row matters."""
        in_bins = any(effect.time_edges is not None for effect in self.effects.values())
        return in_bins or isinstance(self.link, AffineInTime)

    def correct(
        self,
        items: Any,
        logits: Any,
        time: Any = None,
        *,
        groups: Any = None,
        users: Any = None,
        look: Look | None = None,
    ) -> Floats:
        """The same for plain arrays; without ``time`` the last time bin counts, as for a time that is NaN.

        ``groups`` and ``users`` are looked at by sets that have such an effect; None counts as unknown, as
        does a null among ids. ``look`` is shown where the ids of each effect were found.
        """
        values = np.asarray(logits, dtype=np.float64)
        given = {"item": items, "group": groups, "user": users}
        for name, ids in given.items():
            if ids is not None and (values.ndim != 1 or len(values) != len(ids)):
                raise InputError(
                    f"{len(ids)} {name} ids and logits of shape {values.shape}; expected equal lengths"
                )
        if values.ndim != 1:
            raise InputError(f"logits of shape {values.shape}; expected a list of numbers")
        if not np.isfinite(values).all():
            raise InputError(
                f"logit {int(np.argmin(np.isfinite(values)))} is NaN or infinite; expected numbers"
            )
        times = None if time is None else self._times(np.asarray(time, dtype=np.float64), len(values))
        found = []
        for each in self.lookups:
            ids = given[each.name]
            positions = np.full(len(values), -1, np.int32) if ids is None else each.positions(ids)
            if look is not None:
                look(each.name, positions)
            found.append((each.added, positions))
        if not found:
            return self.link.probability(values, 0.0, times)
        result = np.empty(len(values))
        for part in slices(len(values)):
            then = None if times is None else times[part]
            added = sum_of(((each, positions[part]) for each, positions in found), values[part], then)
            result[part] = self.link.probability(values[part], added, then)
        return result

    def _times(self, times: Floats, rows: int) -> Floats:
        if times.shape != (rows,):
            raise InputError(f"times of shape {times.shape} for {rows} rows; expected one for each")
        if not np.isnan(times).any():
            return times
        if isinstance(self.link, AffineInTime):
            raise InputError(f"row {int(np.argmax(np.isnan(times)))} has no time, which {self.method} needs")
        return np.where(np.isnan(times), np.inf, times)  # the last bin

    def correct_one(
        self,
        item: Any,
        logit: float,
        time: float | None = None,
        *,
        group: Any = None,
        user: Any = None,
        look: Callable[[str, int], None] | None = None,
    ) -> float:
        """The same for one row, as a server asks: no arrays of ids, no conversion of types."""
        value = float(logit)
        if not isfinite(value):
            raise InputError(f"logit {logit!r} is NaN or infinite; expected a number")
        then = None if time is None else self._times(np.array([time], dtype=np.float64), 1)
        added = 0.0
        for each in self.lookups:
            name = each.name
            position = each.position(item if name == "item" else group if name == "group" else user)
            if look is not None:
                look(name, position)
            added += each.added.at_one(position, value, then)
        if isinstance(self.link, Affine):
            return self.link.probability_of_one(value, added)
        return float(self.link.probability(np.array([value]), added, then)[0])

    @cached_property
    def lookups(self) -> tuple[Lookup, ...]:
        """The effects made ready to serve, in the order in which they are added."""
        cold = None
        if self.cold is not None:
            known = self.effects.get("item")
            if not isinstance(self.link, Affine) or known is None or known.time_edges is not None:
                raise ValueError(f"{self.method} has a line for unknown items, but no line of known ones")
            cold = ColdShift(self.cold.a - self.link.a, self.cold.b0 - self.link.b0)
        return tuple(
            Lookup(name, self.effects[name], self.logit_mean, cold if name == "item" else None)
            for name in COLUMNS
            if name in self.effects
        )

    # --- storage --------------------------------------------------------------------------------------

    def write(self, directory: Path) -> None:
        """Write ``params.json``, a table for each effect and ``golden.json``; whole or not at all."""
        from slc_ops.parameters.storage import write

        write(self, directory)

    @classmethod
    def read(cls, directory: Path) -> "ParameterSet":
        """Read and verify a directory: schema version, digests, golden vectors."""
        from slc_ops.parameters.storage import read

        return read(directory)


_CODES = {"item": "codes", "group": "group", "user": "user"}
"""The field of :class:`Rows` that holds the codes of each effect's ids."""


@dataclass(frozen=True)
class Apply:
    """A parameter set made ready for the rows of one log: what is added, by the code of an id."""

    link: Curve
    parts: tuple[tuple[str, Added], ...]
    columns: Columns

    def of(self, rows: Rows, out: Floats | None = None) -> Floats:
        """Corrected probabilities."""
        return self._each(self.link.probability, rows, out)

    def score(self, rows: Rows) -> Floats:
        """Numbers that order the rows as their corrected probabilities do."""
        return self._each(self.link.score, rows, None)

    def _each(self, formula: Callable[..., Floats], rows: Rows, out: Floats | None) -> Floats:
        result = np.empty(len(rows)) if out is None else out
        coded = [(added, getattr(rows, name)) for name, added in self.parts]
        for part in slices(len(rows)):
            time = None if rows.time is None else rows.time[part]
            logit = rows.logit[part].astype(np.float64)
            added = sum_of(((each, codes[part]) for each, codes in coded), logit, time) if coded else 0.0
            result[part] = formula(logit, added, time)
        return result


def sum_of(effects: Iterable[tuple[Added, Positions]], logit: Floats, time: Floats | None) -> Floats:
    """What all effects add to each row."""
    parts = (effect.at(positions, logit, time) for effect, positions in effects)
    total = next(parts)
    for part in parts:
        total += part
    return total
