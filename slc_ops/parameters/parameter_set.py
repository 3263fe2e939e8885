"""The parameter set: all results of a fit, and the formula from logits to probabilities."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slc_ops.base.errors import InputError
from slc_ops.base.methods import METHODS
from slc_ops.base.window import Window
from slc_ops.numerics.curves import Affine, AffineInTime, Curve
from slc_ops.numerics.kernels import Floats, slices
from slc_ops.parameters.effects import COLUMNS, Added, Effect, Lookup, Positions
from slc_ops.rows.interactions import InteractionLog
from slc_ops.rows.passes import in_spans, workers
from slc_ops.rows.rows import Columns, Log, Rows


@dataclass(frozen=True)
class PriorMean:
    """An earlier backbone's offsets as prior mean, and the gain on held-out rows."""

    backbone_version: str
    share: float
    gain: float
    """Reduction in NLL per held-out row, against prior mean 0."""

    @property
    def sentence(self) -> str:
        """The prior mean as text, for reports and model cards.

        >>> PriorMean("gru-7", 0.5, 0.0031).sentence
        'Begins from 0.5 of the offsets of backbone gru-7: held-out NLL lower by 0.0031.'
        """
        return (
            f"Begins from {self.share:g} of the offsets of backbone {self.backbone_version}: "
            f"held-out NLL lower by {self.gain:.4f}."
        )


@dataclass(frozen=True)
class Provenance:
    """The origin of a parameter set; all fields are optional for sets fitted by hand."""

    deployment: str | None = None
    window: Window | None = None
    backbone_version: str | None = None
    input_digest: str | None = None
    config_digest: str | None = None
    code_version: str | None = None
    on_backbone_mismatch: str | None = None
    """The server's rule for rows of another backbone; None if the deployment has none."""
    prior_mean: PriorMean | None = None
    """Set if the offsets were shrunk towards those of an earlier backbone."""


class Found(NamedTuple):
    """Rows to correct: checked logits and times, the positions of the ids of each effect, −1 if unknown."""

    logits: Floats
    times: Floats | None
    positions: list[Positions]


@dataclass(frozen=True)
class ParameterSet:
    """A fitted method: a link, and effects by name (``item``, ``group``, ``user``).

    p = link(a·η₀ + b₀ + Σ effects). Methods that use only the score have no effect. An id that is not in the
    table (cold start) has effect 0; if ``cold`` is set, unknown items use its line instead: σ(a·η₀ + b₀) with
    its own a and b₀. Slopes multiply η₀ − ``logit_mean``.

    >>> items = Effect(pa.table({"id": ["a"], "offset": [1.0]}))
    >>> parameters = ParameterSet(method="slc", link=Affine(a=1.0, b0=0.0), effects={"item": items})
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
        """Return the same parameters with these fields of the provenance replaced."""
        return replace(self, provenance=replace(self.provenance, **known))

    def with_effect(self, name: str, effect: Effect) -> "ParameterSet":
        """Return the same parameters with an effect added or replaced."""
        return replace(self, effects={**self.effects, name: effect})

    @property
    def items(self) -> pa.Table | None:
        """The table of the item effect; None if the method has none."""
        return self.effects["item"].table if "item" in self.effects else None

    @property
    def prior_var(self) -> float | None:
        """The prior variance of the item offsets; None without one."""
        return self.effects["item"].prior_var if "item" in self.effects else None

    @property
    def time_edges(self) -> Floats | None:
        """The time-bin edges of the item offsets; None without time bins."""
        return self.effects["item"].time_edges if "item" in self.effects else None

    def same_answers(self, other: "ParameterSet") -> bool:
        """Return True if both sets give bit-identical results for every row; provenance is ignored."""
        mine, others = (
            (s.method, s.link.as_dict(), s.cold, s.logit_mean, set(s.effects)) for s in (self, other)
        )
        return mine == others and all(
            effect.same_answers(other.effects[name]) for name, effect in self.effects.items()
        )

    def affine(self) -> dict[str, float] | None:
        """Return ``{a, b0}`` of methods that fit them, otherwise None.

        A method that is unknown to this release counts as one that fits them.
        """
        method = METHODS.get(self.method)
        if not isinstance(self.link, Affine | AffineInTime) or (method is not None and not method.fits_link):
            return None
        return {"a": self.link.a, "b0": self.link.b0}

    # --- prediction -----------------------------------------------------------------------------------

    def apply(self, log: InteractionLog, *, threads: int | None = None) -> Floats:
        """Return the corrected probabilities of a log's rows, in row order."""
        apply, result = self.on(log), np.empty(log.n_rows)

        def work(first: int, last: int) -> None:
            apply.of(log.rows(first, last, apply.columns), out=result[first:last])

        for _ in in_spans(work, log.n_rows, workers(threads)):
            pass
        return result

    def on(self, log: Log) -> "Apply":
        """Prepare the set for a log's rows: ids are looked up once per id, not once per row."""
        columns: set[str] = {"time"} if self.needs_time else set()
        parts = []
        for each in self.lookups:
            if each.name == "item":
                ids = log.items
            else:
                columns.add(each.name)
                ids = log.groups if each.name == "group" else log.users
            if ids is not None:
                positions = np.append(each.index.positions(ids), np.int32(-1))  # code −1 is no id
                parts.append((_CODES[each.name], positions, each.added))
        return Apply(self.link, tuple(parts), columns)  # type: ignore[arg-type]  # names of columns

    @property
    def needs_time(self) -> bool:
        """True if the result depends on the event time of a row."""
        in_bins = any(effect.time_edges is not None for effect in self.effects.values())
        return in_bins or isinstance(self.link, AffineInTime)

    def correct(
        self, items: Any, logits: Any, time: Any = None, *, groups: Any = None, users: Any = None
    ) -> Floats:
        """Correct plain arrays; without ``time``, or with a NaN time, the last time bin applies.

        Ids that are None or null count as unknown. Raises :class:`InputError` for unequal lengths, a logit
        that is not finite, and a missing time if the link depends on time.
        """
        return self.probabilities(self.found({"item": items, "group": groups, "user": users}, logits, time))

    def found(self, ids: Mapping[str, Any], logits: Any, time: Any) -> "Found":
        """Check the rows of :meth:`correct` and look up their ids, which are given by effect."""
        values = np.asarray(logits, dtype=np.float64)
        for name, each in ids.items():
            if each is not None and (values.ndim != 1 or len(values) != len(each)):
                raise InputError(
                    f"{len(each)} {name} ids and logits of shape {values.shape}; expected equal lengths"
                )
        if values.ndim != 1:
            raise InputError(f"logits of shape {values.shape}; expected a list of numbers")
        if not np.isfinite(values).all():
            raise InputError(
                f"logit {int(np.argmin(np.isfinite(values)))} is NaN or infinite; expected numbers"
            )
        times = None if time is None else self._times(np.asarray(time, dtype=np.float64), len(values))
        nowhere = np.full(len(values), -1, np.int32)
        positions = [
            nowhere if (given := ids.get(each.name)) is None else each.index.positions(given)
            for each in self.lookups
        ]
        return Found(values, times, positions)

    def probabilities(self, rows: "Found") -> Floats:
        """Return the corrected probabilities of rows whose ids were looked up."""
        return _each(self.link.probability, *rows, [each.added for each in self.lookups])

    def interval(self, rows: "Found") -> tuple[Floats, Floats] | tuple[None, None]:
        """Return p at both ends of the central 95 % of the offsets' posterior; None without variances.

        Offsets are normal with the posterior variance of the fit; the variances of a row's offsets add up. An
        unknown id has the prior variance. The link and the slopes count as known.

        >>> items = Effect(pa.table({"id": ["a"], "offset": [1.0], "offset_var": [0.25]}), prior_var=1.0)
        >>> parameters = ParameterSet("slc", Affine(), {"item": items})
        >>> found = parameters.interval(parameters.found({"item": ["a"]}, [0.0], None))
        >>> [each.round(3).tolist() for each in found]
        [[0.505], [0.879]]
        """
        logits, times, positions = rows
        pairs = zip(self.lookups, positions, strict=True)
        variances = [found for each, mine in pairs if (found := each.variance(mine, times)) is not None]
        if not variances or len(variances) < len(self.lookups):
            return None, None
        added = _each(_sum, *rows, [each.added for each in self.lookups])
        reach = _Z * np.sqrt(sum(variances))
        low, high = (self.link.probability(logits, added + side * reach, times) for side in (-1.0, 1.0))
        return np.minimum(low, high), np.maximum(low, high)

    def _times(self, times: Floats, rows: int) -> Floats:
        if times.shape != (rows,):
            raise InputError(f"times of shape {times.shape} for {rows} rows; expected one for each")
        if not np.isnan(times).any():
            return times
        if isinstance(self.link, AffineInTime):
            raise InputError(f"row {int(np.argmax(np.isnan(times)))} has no time, which {self.method} needs")
        return np.where(np.isnan(times), np.inf, times)  # the last bin

    def correct_one(
        self, item: Any, logit: float, time: float | None = None, *, group: Any = None, user: Any = None
    ) -> float:
        """Correct one row without building arrays of ids; see :meth:`correct`."""
        return self.one_found({"item": item, "group": group, "user": user}, logit, time)[0]

    def one_found(self, ids: Mapping[str, Any], logit: float, time: float | None) -> tuple[float, list[str]]:
        """Return the corrected probability of one row, and the effects that do not know its id."""
        value = float(logit)
        if not isfinite(value):
            raise InputError(f"logit {logit!r} is NaN or infinite; expected a number")
        then = None if time is None else self._times(np.array([time], dtype=np.float64), 1)
        added, unknown = 0.0, []
        for each in self.lookups:
            position = each.index.position(ids.get(each.name))
            if position < 0:
                unknown.append(each.name)
            added += each.added.at_one(position, value, then)
        if isinstance(self.link, Affine):
            return self.link.probability_of_one(value, added), unknown
        return float(self.link.probability(np.array([value]), added, then)[0]), unknown

    @cached_property
    def lookups(self) -> tuple[Lookup, ...]:
        """The effects prepared for serving, in order of addition."""
        cold = None
        if self.cold is not None:
            known = self.effects.get("item")
            if not isinstance(self.link, Affine) or known is None or known.time_edges is not None:
                raise ValueError(f"{self.method} has a line for unknown items, but no line of known ones")
            cold = Affine(self.cold.a - self.link.a, self.cold.b0 - self.link.b0)
        return tuple(
            Lookup(name, self.effects[name], self.logit_mean, cold if name == "item" else None)
            for name in COLUMNS
            if name in self.effects
        )

    # --- storage --------------------------------------------------------------------------------------

    def write(self, directory: Path) -> None:
        """Write ``params.json``, a table for each effect and ``golden.json`` atomically."""
        from slc_ops.parameters.storage import write

        write(self, directory)

    @classmethod
    def read(cls, directory: Path) -> "ParameterSet":
        """Read and verify a directory: schema version, digests, golden vectors."""
        from slc_ops.parameters.storage import read

        return read(directory)


_Z = 1.959963984540054
"""The 97.5 % quantile of the standard normal distribution."""
_CODES = {"item": "codes", "group": "group", "user": "user"}
"""The field of :class:`Rows` that holds the codes of each effect's ids."""


@dataclass(frozen=True)
class Apply:
    """A parameter set prepared for the rows of one log; ids are addressed by code."""

    link: Curve
    parts: tuple[tuple[str, Positions, Added], ...]
    """For each effect, the field of the rows' codes, the position of each code, and the terms."""
    columns: Columns

    def of(self, rows: Rows, out: Floats | None = None) -> Floats:
        """Return corrected probabilities."""
        return self._with(self.link.probability, rows, out)

    def score(self, rows: Rows) -> Floats:
        """Return numbers that sort the rows as their corrected probabilities do."""
        return self._with(self.link.score, rows)

    def added(self, rows: Rows) -> Floats:
        """Return the sums of the effects."""
        return self._with(_sum, rows)

    def _with(self, formula: Callable[..., Floats | float], rows: Rows, out: Floats | None = None) -> Floats:
        found = [positions.take(getattr(rows, name)) for name, positions, _ in self.parts]
        return _each(formula, rows.logit, rows.time, found, [added for _, _, added in self.parts], out)


def _each(
    formula: Callable[..., Floats | float],
    logits: NDArray[np.floating],
    times: Floats | None,
    positions: Sequence[Positions],
    effects: Sequence[Added],
    out: Floats | None = None,
) -> Floats:
    """Return the formula of each row's logit and the sum of its effects, computed slice by slice."""
    result = np.empty(len(logits)) if out is None else out
    for part in slices(len(logits)):
        logit, time = logits[part].astype(np.float64, copy=False), None if times is None else times[part]
        added: Floats | None = None
        for effect, where in zip(effects, positions, strict=True):
            term = effect.at(where[part], logit, time)
            added = term if added is None else added + term
        result[part] = formula(logit, 0.0 if added is None else added, time)
    return result


def _sum(logit: Floats, added: Floats | float, time: Floats | None) -> Floats | float:
    return added
