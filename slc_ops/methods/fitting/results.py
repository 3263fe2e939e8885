"""From a fit to its parameter set: the link, and the table of the items' effect, sorted by id."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from slc_ops.base.buffers import as_arrow, as_numpy
from slc_ops.methods.fitting.calibration import Calibration
from slc_ops.methods.fitting.link import FittedLink
from slc_ops.numerics.curves import Affine, Curve
from slc_ops.numerics.kernels import Floats, Sums
from slc_ops.parameters.effects import Effect
from slc_ops.parameters.parameter_set import ParameterSet


def fitted(
    calibration: Calibration,
    method: str,
    link: Curve | FittedLink,
    items: Effect | Mapping[str, Effect] | None = None,
    **more: Any,
) -> ParameterSet:
    """Return the parameter set of a fitted method; ``items`` may be a mapping of all its effects."""
    if isinstance(link, FittedLink):
        more, link = {"warnings": link.warnings, **more}, Affine(link.a, link.b0)
    return ParameterSet(
        method=method,
        link=link,
        effects={"item": items} if isinstance(items, Effect) else dict(items or {}),
        n_rows=calibration.log.n_rows,
        n_items=calibration.n_items,
        **more,
    )


def item_effect(
    calibration: Calibration,
    offset: Floats,
    variance: Floats,
    shrinkage: Floats,
    prior_var: float | None = None,
    slope: Floats | None = None,
) -> Effect:
    """Return the effect of the items, by item and time bin if the values have bins in columns."""
    in_bins = offset.ndim > 1
    sums = calibration.cell_sums if in_bins else calibration.item_sums
    edges = calibration.time_edges if in_bins else None
    values = {"offset": offset} if slope is None else {"offset": offset, "slope": slope}
    return effect_of(calibration.log.items, sums, values, variance, shrinkage, prior_var, edges)


def effect_of(
    ids: pa.Array,
    sums: Sums,
    values: Mapping[str, Floats],
    variance: Floats,
    shrinkage: Floats,
    prior_var: float | None,
    time_edges: Floats | None = None,
) -> Effect:
    """Return a table of one row per id, or per id and time bin, with offsets and other ``values``.

    The same ids give the same file: rows ascend by id, and ids whose rows all have weight 0 are omitted. A
    variance that the method does not have is NaN here and null in the table.
    """
    size = len(ids)
    ids, chosen = _sorted(ids, np.flatnonzero(sums.n.reshape(size, -1).sum(axis=1)))
    columns: dict[str, Any] = {"id": ids}
    if time_edges is not None:
        bins = np.arange(len(time_edges) - 1, dtype=np.int32)
        columns["id"] = ids.take(as_arrow(np.repeat(np.arange(len(ids)), len(bins))))
        columns["time_bin"] = as_arrow(np.tile(bins, len(ids)))
    values = {**values, "offset_var": variance, "n_obs": sums.n, "fisher_weight": sums.fisher}
    for name, each in {**values, "shrinkage": shrinkage}.items():
        column = each.reshape(size, -1)[chosen].ravel()
        columns[name] = as_arrow(column, nan_is_null=name == "offset_var")
    return Effect(pa.table(columns), prior_var, time_edges=time_edges)


def lasting_part(inverse: Floats, v: float, s: float) -> tuple[Floats, Floats, float]:
    """Return posterior variance, shrinkage and prior variance s·v of the lasting part of some effects.

    ``inverse`` is the inverse curvature of the whole effects, ``v`` their variance, ``s`` the lasting share.

    >>> [each.tolist() for each in lasting_part(np.array([0.5]), 1.0, 0.5)[:2]]
    [[0.375], [0.25]]
    """
    variance, prior = s * s * inverse + s * (1.0 - s) * v, s * v
    return variance, 1.0 - variance / prior if prior else np.zeros_like(variance), prior


def _sorted(ids: pa.Array, kept: NDArray[np.intp]) -> tuple[pa.Array, NDArray[np.intp]]:
    chosen = ids if len(kept) == len(ids) else ids.take(as_arrow(kept))
    if pa.types.is_integer(chosen.type):  # three times as fast as Arrow's
        order = np.argsort(as_numpy(chosen))
    else:
        order = as_numpy(pc.sort_indices(chosen)).astype(np.intp)
    return chosen.take(as_arrow(order)), kept[order]
