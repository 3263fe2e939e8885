"""Golden vectors: inputs with expected probabilities, stored beside the parameters.

They stop a loader that computes something else before it serves: another library version, a damaged file,
a bug, or bins closed on the other side. A vector with a null probability must be refused.
"""

from collections.abc import Iterator
from itertools import cycle, product
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slc_ops.base.buffers import as_numpy
from slc_ops.base.errors import InputError, ParameterSetError
from slc_ops.numerics.curves import AffineInTime, Histogram, Isotonic
from slc_ops.numerics.kernels import Floats
from slc_ops.parameters.effects import COLUMNS, Effect
from slc_ops.parameters.parameter_set import ParameterSet

TOLERANCE = 1e-9
LEAST = 20
_LOGITS = (
    -700.0, -40.0, -20.0, -8.0, -5.0, -3.0, -2.5, -1.5, -1.0, -0.3, -1e-9,
    0.0, 0.3, 1.0, 1.5, 2.5, 5.0, 8.0, 20.0, 40.0, 700.0,
)  # fmt: skip
_USUAL = (-3.0, 0.0, 1.5)
_MIDDLES = 256
_STEEP = 1e5
"""Slopes above this would expose the last bits of the exponential function, which differ between machines."""

Vector = dict[str, Any]


def golden_vectors(parameters: ParameterSet) -> list[Vector]:
    """Return vectors for extreme logits, extreme ids, edges, knots, bin borders, missing ids and times."""
    vectors = [
        {**{COLUMNS[name]: each for name, each in ids.items()}, "logit": logit, "time": time}
        for ids, logit, time in _inputs(parameters)
    ]
    answers = _answers(parameters, vectors)
    return [{**vector, "probability": answer} for vector, answer in zip(vectors, answers, strict=True)]


def check_golden(parameters: ParameterSet, vectors: list[Vector]) -> None:
    """Recompute every vector; raise `ParameterSetError` if one differs."""
    if len(vectors) < LEAST:
        raise ParameterSetError(f"golden.json has {len(vectors)} vectors; expected at least {LEAST}")
    for number, (vector, answer) in enumerate(zip(vectors, _answers(parameters, vectors), strict=True)):
        stated = vector["probability"]
        alike = stated is answer if None in (stated, answer) else abs(answer - stated) <= TOLERANCE
        if not alike:
            raise ParameterSetError(
                f"golden vector {number} gives {answer!r} instead of {stated!r}: the parameter set or the "
                "code that reads it has changed; fit it again"
            )


def _answers(parameters: ParameterSet, vectors: list[Vector]) -> list[Any]:
    """Return the probability of each vector; None for a row that is refused."""
    missing = isinstance(parameters.link, AffineInTime)
    answered = [row for row, vector in enumerate(vectors) if not (missing and vector["time"] is None)]
    answers: list[Any] = [None] * len(vectors)
    if refused := sorted(set(range(len(vectors))) - set(answered)):
        try:
            _correct(parameters, [vectors[row] for row in refused])
        except InputError:
            pass
        else:
            raise ParameterSetError(f"{parameters.method} answers rows without a time")
    if answered:
        found = _correct(parameters, [vectors[row] for row in answered]).tolist()
        for row, answer in zip(answered, found, strict=True):
            answers[row] = answer
    return answers


def _correct(parameters: ParameterSet, vectors: list[Vector]) -> Floats:
    ids = {name: [each[COLUMNS[name]] for each in vectors] for name in parameters.effects}
    times = [np.nan if each["time"] is None else each["time"] for each in vectors]
    logits = [each["logit"] for each in vectors]
    return parameters.probabilities(parameters.found(ids, logits, None if np.isnan(times).all() else times))


def _inputs(parameters: ParameterSet) -> Iterator[tuple[dict[str, Any], float, float | None]]:
    """Yield the ids, the logit and the time of each vector."""
    effects, times = parameters.effects, cycle(_times(parameters))
    unknown = {name: _unknown_id(effect) for name, effect in effects.items()}
    for logit in (*_LOGITS, *_places(parameters)):
        yield unknown, logit, next(times)
    for name, effect in effects.items():
        for each, logit in product(_telling(effect), _USUAL):
            yield {**unknown, name: each}, logit, next(times)
    known = {name: _telling(effect)[:1] for name, effect in effects.items()}
    for ids in product(*([*known[name], unknown[name], None] for name in effects)):
        for logit in _USUAL:
            yield dict(zip(effects, ids, strict=True)), logit, next(times)
    for name, effect in effects.items():
        for time, each in _borders(effect):
            yield {**unknown, name: each}, 0.3, time
    if isinstance(parameters.link, AffineInTime):
        yield unknown, 0.3, None


def _times(parameters: ParameterSet) -> list[float | None]:
    if isinstance(parameters.link, AffineInTime):
        mean, sd = parameters.link.time_mean, parameters.link.time_sd
        return [mean - sd, mean, mean + 3 * sd]
    edges = [effect.time_edges for effect in parameters.effects.values() if effect.time_edges is not None]
    if not edges:
        return [None]
    return [None, *(float(t) for e in edges for t in (e[0] - 1.0, e[len(e) // 2], e[-1] + 1.0))]


def _borders(effect: Effect) -> Iterator[tuple[float, Any]]:
    """Yield each time-bin edge with the id whose offset jumps most there."""
    if effect.time_edges is None or effect.table.num_rows == 0:
        return
    offset = as_numpy(effect.table.column("offset")).reshape(-1, effect.bins)
    jump = np.abs(np.diff(offset, axis=1, prepend=offset[:, :1], append=offset[:, -1:]))
    for edge, row in zip(effect.time_edges.tolist(), jump.argmax(axis=0).tolist(), strict=True):
        yield edge, effect.ids[row].as_py()


def _places(parameters: ParameterSet) -> list[float]:
    """Return the logits at which the link bends or jumps."""
    link = parameters.link
    if isinstance(link, Histogram):
        edges = np.linspace(0.0, 1.0, len(link.values) + 1)[1:-1]
        return [*_logit(np.sort([*(edges - 1e-6), *(edges + 1e-6)])), *_on_edges(edges)]
    if isinstance(link, Isotonic):
        slope = np.abs(np.diff(link.y) / np.diff(link.x))
        at_knot = np.maximum(np.append(slope, 0.0), np.append(0.0, slope))
        middles = ((link.x[1:] + link.x[:-1]) / 2)[slope < _STEEP]
        chosen = np.unique(np.linspace(0, len(middles) - 1, _MIDDLES).astype(int))
        return [*_logit(link.x[at_knot < _STEEP]), *_logit(middles[chosen[: len(middles)]])]
    return []


def _logit(probability: Floats) -> list[float]:
    inside = np.clip(probability, 1e-15, 1 - 1e-15)
    found: list[float] = (np.log(inside) - np.log1p(-inside)).tolist()
    return found


def _on_edges(edges: Floats) -> Iterator[float]:
    """Yield logits whose probability equals the edge, even if the exponential is off by one unit in the last
    place.

    Below ½ no such logit exists in general: the last bits of the exponential decide.
    """
    for edge in edges[edges >= 0.5]:
        near = _logit(np.array([edge]))[0]
        tried = near + np.arange(-64, 65) * np.spacing(near or 1e-16)
        e = np.exp(-tried)
        right = [1.0 / (1.0 + e * (1 + k * np.finfo(float).eps)) == edge for k in (-1, 0, 1)]
        hits = np.flatnonzero(np.all(right, axis=0))
        if len(hits):
            yield float(tried[hits[len(hits) // 2]])


def _unknown_id(effect: Effect) -> Any:
    ids = effect.ids
    if pa.types.is_integer(ids.type):
        low, high = pc.min_max(ids).as_py().values() if len(ids) else (0, 0)
        if high < 2**63 - 1:
            return high + 1
        if low > -(2**63):
            return low - 1
        # Both ends of the 64-bit range are taken: use the first gap between two ids.
        numbers = np.unique(as_numpy(ids))
        gaps = np.flatnonzero(np.diff(numbers.view(np.uint64)) != 1)
        return int(numbers[gaps[0]]) + 1
    return "an id that was never seen" + "'" * (pc.max(pc.utf8_length(ids)).as_py() or 0 if len(ids) else 0)


def _telling(effect: Effect) -> list[Any]:
    """Return the ids at both ends and in the middle of the table and of its offsets."""
    if effect.table.num_rows == 0:
        return []
    offset = as_numpy(effect.latest().column("offset"))
    rows = {
        int(np.argmax(offset)), 0, len(offset) - 1, len(offset) // 2,
        int(np.argmin(offset)), int(np.argmin(np.abs(offset))),
    }  # fmt: skip
    ids = effect.ids
    first, *others = [int(np.argmax(np.abs(offset))), *sorted(rows)]
    return list(dict.fromkeys(ids[row].as_py() for row in (first, *others)))
