"""Golden vectors: inputs and the probabilities they must give, stored beside the parameters.

A loader that computes something else (another library version, a damaged file, a bug) finds out before it
serves.
"""

from typing import Any

import numpy as np

from slc_ops.base.errors import ParameterSetError
from slc_ops.parameters.parameter_set import ParameterSet
from slc_ops.rows.buffers import as_arrow, as_numpy

TOLERANCE = 1e-9
_EXTREME = (-700.0, -40.0, -8.0, -2.5, -1.0, -1e-9, 0.0, 0.3, 1.0, 2.5, 8.0, 40.0, 700.0)
_USUAL = (-3.0, 0.0, 1.5)


def golden_vectors(parameters: ParameterSet) -> list[dict[str, Any]]:
    """At least 20 vectors: unknown items with extreme logits, and the most telling known items."""
    unknown = _unknown_id(parameters)
    inputs: list[tuple[Any, float]] = [(unknown, logit) for logit in _EXTREME]
    inputs += [(item, logit) for item in _telling_items(parameters) or [unknown] * 3 for logit in _USUAL]
    times = _times(parameters)
    vectors = []
    for position, (item, logit) in enumerate(inputs):
        time = times[position % len(times)]
        vectors.append(
            {
                "item_id": item,
                "logit": logit,
                "time": time,
                "probability": _answer(parameters, item, logit, time),
            }
        )
    return vectors


def check_golden(parameters: ParameterSet, vectors: list[dict[str, Any]]) -> None:
    """Recompute every vector; refuse the set when one differs."""
    if len(vectors) < 20:
        raise ParameterSetError(f"golden.json has {len(vectors)} vectors; expected at least 20")
    for number, vector in enumerate(vectors):
        answer = _answer(parameters, vector["item_id"], vector["logit"], vector["time"])
        if not abs(answer - vector["probability"]) <= TOLERANCE:
            raise ParameterSetError(
                f"golden vector {number} gives {answer!r} instead of {vector['probability']!r}: the "
                "parameter set or the code that reads it has changed; fit it again"
            )


def _answer(parameters: ParameterSet, item: Any, logit: float, time: float | None) -> float:
    times = None if time is None else [time]
    return float(parameters.correct([item], [logit], times)[0])


def _unknown_id(parameters: ParameterSet) -> Any:
    if parameters.items is None:
        return "any item"
    import pyarrow as pa
    import pyarrow.compute as pc

    ids = parameters.items.column("item_id")
    if pa.types.is_integer(ids.type):
        low, high = pc.min_max(ids).as_py().values() if len(ids) else (0, 0)
        if high < 2**63 - 1:
            return high + 1
        if low > -(2**63):
            return low - 1
        # Both ends of the 64 bits are taken: into the first gap between two ids.
        numbers = np.unique(as_numpy(ids))
        gaps = np.flatnonzero(np.diff(numbers.view(np.uint64)) != 1)
        return int(numbers[gaps[0]]) + 1
    return "an item that was never seen" + "'" * (pc.max(pc.utf8_length(ids)).as_py() or 0 if len(ids) else 0)


def _telling_items(parameters: ParameterSet) -> list[Any]:
    if parameters.items is None or parameters.items.num_rows == 0:
        return []
    offset = as_numpy(parameters.items.column("offset"))
    rows = {0, len(offset) - 1, len(offset) // 2, int(np.argmin(offset)), int(np.argmax(offset))}
    rows.add(int(np.argmin(np.abs(offset))))
    names = parameters.items.column("item_id").take(as_arrow(np.array(sorted(rows)))).to_pylist()
    return list(dict.fromkeys(names + names[:1] * 3))[:6] if len(set(names)) >= 3 else (names * 3)[:6]


def _times(parameters: ParameterSet) -> list[float | None]:
    from slc_ops.numerics.curves import AffineInTime

    if isinstance(parameters.link, AffineInTime):
        mean, sd = parameters.link.time_mean, parameters.link.time_sd
        return [mean - sd, mean, mean + 3 * sd]
    if parameters.time_edges is not None:
        edges = parameters.time_edges
        return [None, float(edges[0]) - 1.0, float(edges[len(edges) // 2]), float(edges[-1]) + 1.0]
    return [None]
