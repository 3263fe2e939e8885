"""The statistics table: one row, one column per thing that an expectation judges."""

from collections import Counter
from collections.abc import Sequence
from statistics import fmean, median
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from slc_ops.intake.manifest import WindowManifest
from slc_ops.quality.statistics import Statistics, item_ids

ENOUGH_ROWS = 100
"""So many logits that all lie in [0, 1] are no accident."""


def measures(
    now: Statistics, manifest: WindowManifest, before: Sequence[tuple[WindowManifest, Statistics]]
) -> dict[str, Any]:
    """Statistics of the window, and of the window against the trailing ones (those with rows).

    A measure that is undefined (no history, no valid logit) is absent, and no expectation asks for it.
    """
    table: dict[str, Any] = {f"type_{column}": name for column, name in now.types.items()}
    table["rows"] = now.rows
    table["score_columns"] = sum(now.types[column] != "missing" for column in ("logit", "probability"))
    table["backbone_versions"] = len(now.versions)
    table["rows_without_time"] = manifest.notes.get("rows_without_time", 0)
    if not now.rows:
        return table
    table |= {f"share_{code}": count / now.rows for code, count in now.failed.items()}
    table |= {
        "share_failed_rows": now.failed_rows / now.rows,
        "share_repeated_rows": now.repeated_rows / now.rows,
        "silent_hours": now.silent_hours,
        "logits_like_probabilities": int(like_probabilities(now)),
    }
    if now.label_rate is not None:
        table["label_rate"] = now.label_rate
    return table | against_trailing(now, manifest, [(m, s) for m, s in before if s.rows])


def like_probabilities(now: Statistics) -> bool:
    """Whether the logit column looks as if probabilities had been written into it."""
    if now.types["logit"] == "missing" or now.logit_low is None or now.logit_high is None or not now.logit_sd:
        return False
    return now.rows >= ENOUGH_ROWS and now.logit_low >= 0 and now.logit_high <= 1


def against_trailing(
    now: Statistics, manifest: WindowManifest, before: Sequence[tuple[WindowManifest, Statistics]]
) -> dict[str, Any]:
    """How far the window is from the trailing weeks."""
    if not before:
        return {}
    past = [statistics for _, statistics in before]
    table: dict[str, Any] = {"rows_ratio": now.rows / median(s.rows for s in past)}
    rates = [s.label_rate for s in past if s.label_rate is not None]
    if rates and now.label_rate is not None:
        table["label_rate_shift"] = abs(now.label_rate - fmean(rates))
    means = [s.logit_mean for s in past if s.logit_mean is not None]
    sds = [s.logit_sd for s in past if s.logit_sd]
    if means and sds and now.logit_mean is not None and now.logit_sd is not None:
        table["logit_mean_shift"] = abs(now.logit_mean - fmean(means)) / fmean(sds)
        table["logit_sd_ratio"] = now.logit_sd / fmean(sds)
    mine = item_ids(manifest.directory)
    if len(mine):
        known = pa.chunked_array(
            [chunk for m, _ in before for chunk in item_ids(m.directory).chunks], pa.string()
        )
        table["share_unseen_items"] = 1 - pc.sum(pc.is_in(mine, value_set=known)).as_py() / len(mine)
    if now.versions and any(s.versions for s in past):
        table["backbone_mix_shift"] = mix_distance(now, past)
    return table


def mix_distance(now: Statistics, past: Sequence[Statistics]) -> float:
    """The share of rows that would have to change their backbone version to give the trailing mix."""
    before: Counter[str] = Counter()
    for statistics in past:
        before.update(statistics.versions)
    return 0.5 * sum(
        abs(now.versions.get(name, 0) / now.rows - before[name] / before.total())
        for name in {*now.versions, *before}
    )
