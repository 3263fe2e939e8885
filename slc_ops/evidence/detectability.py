"""Report whether drift is detectable, per data set and per item (the paper's Proposition 2).

An item's logit bias in time bin t is estimated from n_t Bernoulli outcomes, so the estimate has the variance
1/W_t with the Fisher weight W_t = Σ p(1−p) ≤ n_t/4. A Wald test at level α detects a step δ between two bins
only if

    |δ| ≥ δ_min = z_α · sqrt(1/W_t + 1/W_{t−1}) ≥ z_α · sqrt(8/n),     z_α the two-sided normal quantile.

Below that, tracking an item over time follows noise. The time bins are those of ``slc_t``, which this report
admits or excludes: weighted quantiles without duplicate edges, so there may be fewer bins than requested.
"""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from slc_ops.base import text
from slc_ops.base.errors import InputError, SettingsError
from slc_ops.base.files import read_json, replacing_directory, write_json
from slc_ops.base.parquet import write_parquet
from slc_ops.methods.fitting.calibration import Calibration, keys_of
from slc_ops.methods.fitting.options import FitOptions
from slc_ops.rows.passes import Totals
from slc_ops.rows.rows import Log, Rows

REFERENCE_DRIFT = 0.05  # logit per bin: the paper's "moderate drift"
BLOCK_CELLS = 1 << 24  # (item, time bin) cells per block
SUMMARY, ITEMS = "detectability.json", "items.parquet"  # the files of a report's directory
MIN_SHARE = 0.5  # share of items with detectable drift from which tracking is viable


@dataclass(frozen=True)
class Detectability:
    """The report of one data set; ``per_item`` is a table with one row per item.

    ``obs_per_bin_median`` is the median item's count divided by the bins, as in the paper's Table 4, and
    ``w_max`` and ``delta_min`` follow from it. ``delta_obs_median`` is the median over items of their
    observed drift: the median |step| between adjacent bins, both observed, of the item's logit rate
    log((Σy + ½)/(n − Σy + ½)). It includes estimation noise, so it is an upper bound of the true drift.
    An item is detectable when its observed drift reaches its own threshold from real Fisher weights.
    """

    items: int
    obs_per_item_median: float
    time_bins: int
    alpha: float
    obs_per_bin_median: float
    w_max: float
    delta_min: float
    delta_obs_median: float | None
    detectable_item_share: float
    required_obs_per_item: float
    reference_drift: float
    temporal_tracking: str
    reason: str
    power: list[dict[str, float]]
    per_item: pa.Table | None = None

    @property
    def viable(self) -> bool:
        """True if ``slc_t`` may be chosen."""
        return self.temporal_tracking == "viable"

    def as_dict(self, *, per_item: bool = False) -> dict[str, Any]:
        """Return the JSON form; ``per_item`` adds the table."""
        value = {k: v for k, v in vars(self).items() if k != "per_item"}
        if per_item and self.per_item is not None:
            value["per_item"] = self.per_item.to_pylist()
        return value


def write_detectability(report: Detectability, directory: Path) -> None:
    """Replace ``directory`` with the report: the summary as JSON, the item table as Parquet."""
    with replacing_directory(directory) as temporary:
        write_json(temporary / SUMMARY, report.as_dict(), sealed=True)
        if report.per_item is not None:
            write_parquet(report.per_item, temporary / ITEMS)


def read_detectability(directory: Path) -> Detectability:
    """Read the summary of :func:`write_detectability`; the item table is not read."""
    return Detectability(**read_json(directory / SUMMARY))


def z_two_sided(alpha: float) -> float:
    """Return the two-sided normal quantile.

    >>> round(z_two_sided(0.05), 4)
    1.96
    """
    from statistics import NormalDist

    return NormalDist().inv_cdf(1 - alpha / 2)


def smallest_visible_drift(obs_per_bin: float, alpha: float = 0.05) -> float:
    """Return δ_min in logits for an item with balanced labels: z_α·sqrt(8/n).

    >>> round(smallest_visible_drift(4.8), 2)  # ASSISTments 2017 in the paper
    2.53
    """
    return z_two_sided(alpha) * float(np.sqrt(8 / obs_per_bin))


def required_obs_per_bin(drift: float, alpha: float = 0.05) -> float:
    """Return the observations per bin that make a step of ``drift`` logits detectable.

    >>> round(required_obs_per_bin(0.05))
    12293
    """
    return 8 * z_two_sided(alpha) ** 2 / drift**2


def detectability(log: Log, *, time_bins: int = 10, alpha: float = 0.05) -> Detectability:
    """Return the detectability report of a calibration window, which needs ``event_time``."""
    if time_bins < 2:
        raise SettingsError(f"drift needs at least 2 time bins, not {time_bins}")
    if not 0 < alpha < 1:
        raise SettingsError(f"alpha must lie between 0 and 1, not {alpha}")
    if not log.has("event_time"):
        raise InputError("detectability needs event_time; the log has no such column")
    if log.weighted and not log.item_counts.any():
        raise InputError(f"all weights are 0 in {log.describe()}, so no row counts; expected some above 0")
    edges = Calibration(log, options=FitOptions(time_bins=time_bins)).time_edges
    table = item_table(log, edges, alpha)
    time_bins = len(edges) - 1
    per_item = float(np.median(table["n_obs"].to_numpy()))
    per_bin = per_item / time_bins
    delta_min = smallest_visible_drift(per_bin, alpha)
    observed = table["delta_obs"].drop_null().to_numpy()
    share = float(np.mean(table["detectable"].to_numpy(zero_copy_only=False)))
    required = required_obs_per_bin(REFERENCE_DRIFT, alpha) * time_bins
    tracking, reason = _viability(per_item, required, share, time_bins)
    return Detectability(
        items=table.num_rows,
        obs_per_item_median=per_item,
        time_bins=time_bins,
        alpha=alpha,
        obs_per_bin_median=per_bin,
        w_max=per_bin / 4,
        delta_min=delta_min,
        delta_obs_median=float(np.median(observed)) if observed.size else None,
        detectable_item_share=share,
        required_obs_per_item=required,
        reference_drift=REFERENCE_DRIFT,
        temporal_tracking=tracking,
        reason=reason,
        power=power_curve(alpha),
        per_item=table,
    )


def _viability(per_item: float, required: float, share: float, time_bins: int) -> tuple[str, str]:
    if time_bins < 2:
        return (
            "not viable",
            "almost all rows share one timestamp, so there is one time bin and no step to see",
        )
    if per_item >= required:
        return "viable", (
            f"the median item has {text.count(per_item)} observations, enough to see a drift of "
            f"{REFERENCE_DRIFT} logit per bin ({text.count(required)})"
        )
    if share >= MIN_SHARE:
        return "viable", f"{text.share(share)} of the items drift visibly, each against its own threshold"
    return "not viable", (
        f"the median item has {text.count(per_item)} observations where a drift of {REFERENCE_DRIFT} logit "
        f"per bin needs {text.count(required)}, and {text.share(share, 1)} of the items drift visibly "
        f"(needed: {text.share(MIN_SHARE)})"
    )


def power_curve(alpha: float) -> list[dict[str, float]]:
    """Return the required observations per bin for drifts from 0.02 to 3 logits."""
    drifts = [0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0]
    return [{"drift": drift, "obs_per_bin": required_obs_per_bin(drift, alpha)} for drift in drifts]


def item_table(log: Log, edges: np.ndarray, alpha: float) -> pa.Table:
    """Return one row per item: observations (weighted), Fisher weight, δ_min and observed drift.

    Items are processed in blocks, with one pass over the rows each, to limit the memory of the cells.
    """
    block = max(1, BLOCK_CELLS // (len(edges) - 1))
    items = len(log.items)
    blocks = [(first, min(first + block, items)) for first in range(0, items, block)]
    return pa.concat_tables([_block_table(log, edges, *each, alpha) for each in blocks])


def _block_table(log: Log, edges: np.ndarray, first: int, last: int, alpha: float) -> pa.Table:
    items, time_bins = last - first, len(edges) - 1
    kernel = partial(cell_sums, first, last, edges)
    sums = log.add_up(kernel, threads=FitOptions().workers, columns={"time"}, n_keys=items * time_bins).values
    n, right, W = sums.reshape(3, items, time_bins)
    seen = n.sum(axis=1) > 0
    n, right, W = n[seen], right[seen], W[seen]
    with np.errstate(divide="ignore", invalid="ignore"):
        threshold = z_two_sided(alpha) * np.sqrt(1 / W[:, 1:] + 1 / W[:, :-1])
        rate = np.log((right + 0.5) / (n - right + 0.5))
    pairs = (n[:, 1:] > 0) & (n[:, :-1] > 0)
    delta_min = _row_median(threshold, pairs & np.isfinite(threshold))
    delta_obs = _row_median(np.abs(np.diff(rate, axis=1)), pairs)
    return pa.table(
        {
            "item_id": log.items.slice(first, items).filter(pa.array(seen)),
            "n_obs": n.sum(axis=1),
            "bins_observed": (n > 0).sum(axis=1),
            "fisher_weight": W.sum(axis=1),
            "delta_min": pa.array(delta_min, mask=np.isnan(delta_min)),
            "delta_obs": pa.array(delta_obs, mask=np.isnan(delta_obs)),
            "detectable": delta_obs >= delta_min,  # NaN compares as False
        }
    )


def cell_sums(first: int, last: int, edges: np.ndarray, rows: Rows) -> Totals:
    """Return Σw, Σwy and Σwp(1−p) per item and time bin, for items ``first`` to ``last`` − 1."""
    bins = len(edges) - 1
    if first > 0 or (rows.codes >= last).any():
        rows = rows.chosen(np.flatnonzero((rows.codes >= first) & (rows.codes < last)))
    if len(rows) == 0:
        return Totals(np.zeros((3, (last - first) * bins)))
    cell = keys_of(rows, edges) - first * bins

    def per_cell(values: np.ndarray | None) -> np.ndarray:
        mass = values if rows.weight is None else rows.weight if values is None else rows.weight * values
        return np.bincount(cell, mass, (last - first) * bins).astype(np.float64)

    p = 1 / (1 + np.exp(-rows.logit.astype(np.float64)))
    return Totals(np.array([per_cell(None), per_cell(rows.label), per_cell(p * (1 - p))]))


def _row_median(values: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Return the median of each row over its known entries; NaN without any."""
    median = np.ma.median(np.ma.array(values, mask=~known), axis=1)  # type: ignore[no-untyped-call]
    return np.asarray(median.filled(np.nan))
