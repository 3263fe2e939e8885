"""``compare`` and ``detectability`` over data frames; results render in notebooks."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from slc_ops.api.errors import as_value_errors, in_python
from slc_ops.api.figures import draw_comparison, draw_detectability
from slc_ops.api.pages import Shown, Titled, write_page
from slc_ops.base.extras import require
from slc_ops.base.text import count, number, share
from slc_ops.evidence import compare as comparison
from slc_ops.evidence import detectability as drift
from slc_ops.evidence.metrics import METRICS, paired_metrics
from slc_ops.evidence.uncertainty import PairedDifference
from slc_ops.methods.fitting.options import FitOptions
from slc_ops.rows.frames import Frame, as_log


class CompareWarning(UserWarning):
    """The pair of logs is not a fair comparison, or a fit has a warning."""


@dataclass(frozen=True, repr=False)
class Compared(Shown):
    """Methods fitted to one frame and scored on a later one.

    Attributes:
        result: The complete result, with the fitted parameter sets.
    """

    result: comparison.Comparison

    @property
    def table(self) -> pa.Table:
        """One row per method: metrics, and differences from Platt with their intervals."""
        rows = [
            _figures(name, scored.metrics, self.differences.get(name))
            for name, scored in self.result.methods.items()
        ]
        return pa.Table.from_pylist(rows, schema=_schema(rows[0]))

    def to_pandas(self) -> Any:
        """Return the table as a pandas frame, indexed by method."""
        return self.table.to_pandas().set_index("method")

    @property
    def differences(self) -> dict[str, PairedDifference]:
        """Each method minus Platt on the same rows, with 95 % intervals."""
        return self.result.differences

    @property
    def groups(self) -> pa.Table | None:
        """One row per group and method: metrics, and differences from Platt; None without ``group_id``.

        The intervals of a method hold for all groups simultaneously.
        """
        found = self.result
        rows = [
            {
                "group": group,
                **_figures(name, part.metrics.as_dict(), found.by_group.get(name, {}).get(group)),
            }
            for group, parts in found.groups.items()
            for name, part in parts.items()
        ]
        return pa.Table.from_pylist(rows, schema=_schema(rows[0])) if rows else None

    @property
    def warnings(self) -> tuple[str, ...]:
        """Reasons to distrust the figures: of the comparison and of each fit."""
        own = (
            f"{name}: {text}"
            for name, each in self.result.methods.items()
            for text in each.parameters.warnings
        )
        return (*self.result.warnings, *own)

    def as_dict(self) -> dict[str, Any]:
        """Return the content of ``slc-ops compare --json``."""
        return self.result.as_dict()

    def plot(self) -> Any:
        """Plot the differences from Platt with intervals (matplotlib); needs the extra ``report``."""
        require("Compared.plot", "report")
        return draw_comparison(self)

    def report(self, path: str | Path) -> Path:
        """Write one self-contained HTML page with table, figure and warnings; return its path.

        Needs the extra ``report``.
        """
        require("Compared.report", "report")
        return write_page(Path(path), "Methods compared", self._tables(), self._notes(), self.plot())

    def _tables(self) -> list[Titled]:
        return comparison_tables(self.result)

    def _notes(self) -> Sequence[str]:
        return [f"Warning: {text}" for text in self.warnings]


def comparison_tables(found: comparison.Comparison) -> list[Titled]:
    """Return the tables of a comparison: all metrics, AUC within users and items, differences, groups."""
    paired, methods = paired_metrics(), found.methods.items()
    title = (
        f"{count(found.n_calibration)} calibration rows, {count(found.n_test)} test rows, "
        f"{count(found.n_items)} items, {share(found.cold_start_share, 1)} cold start"
    )
    tables = [
        (
            title,
            ["method", *(metric.title for metric in METRICS.values()), "fit, s"],
            [
                [name, *(m.text(each.metrics[m.name]) for m in METRICS.values()), number(each.seconds_fit, 3)]
                for name, each in methods
            ],
        )
    ]
    if kinds := list(next(iter(found.methods.values())).found.within):
        tables.append(
            (
                f"AUC over pairs of the same {' or '.join(kinds)} only",
                ["method", *(f"within {kind}" for kind in kinds)],
                [[name, *map(METRICS["auc"].text, each.found.within.values())] for name, each in methods],
            )
        )
    if found.differences:
        intervals = [each[metric.name] for each in found.differences.values() for metric in paired]
        bare = any(each.reason == comparison.NO_SCIPY for each in intervals)
        how = f" ({comparison.NO_SCIPY})" if bare else f", with 95 % intervals that resample {found.clusters}"
        known = bare or any(each.low is not None for each in intervals)
        tables.append(
            (
                f"minus {comparison.REFERENCE} on the same rows{how if known else ''}",
                ["method", *(f"Δ {metric.title}" for metric in paired)],
                [
                    [
                        name,
                        *(
                            (m.signed(each[m.name].estimate) if bare else each[m.name].text(m.signed))
                            for m in paired
                        ),
                    ]
                    for name, each in found.differences.items()
                ],
            )
        )
    groups = found.group_table()
    return tables if groups is None else [*tables, groups]


def _figures(name: str, metrics: Mapping[str, Any], found: PairedDifference | None) -> dict[str, Any]:
    """Return one table row: metrics, and differences from Platt with their intervals."""
    row: dict[str, Any] = {"method": name} | {each: metrics[each] for each in METRICS}
    for metric in (each.name for each in paired_metrics()):
        for part, suffix in (("estimate", ""), ("low", "_low"), ("high", "_high")):
            row[f"delta_{metric}{suffix}"] = None if found is None else getattr(found[metric], part)
    return row


def _schema(row: Mapping[str, Any]) -> pa.Schema:
    return pa.schema({name: pa.string() if name in ("method", "group") else pa.float64() for name in row})


@dataclass(frozen=True, repr=False)
class Detectable(Shown):
    """The drift of items that a log can detect.

    Attributes:
        result: All figures; ``result.per_item`` is a table with one row per item.
    """

    result: drift.Detectability

    @property
    def viable(self) -> bool:
        """True if tracking items over time can do more than follow noise."""
        return self.result.viable

    @property
    def table(self) -> pa.Table:
        """One row per item: rows, smallest detectable drift, observed drift."""
        return self.result.per_item

    def as_dict(self) -> dict[str, Any]:
        """Return the content of ``slc-ops detectability --json``."""
        return self.result.as_dict()

    def plot(self) -> Any:
        """Plot observed against smallest detectable drift per item; needs the extra ``report``."""
        require("Detectable.plot", "report")
        return draw_detectability(self.result)

    def _tables(self) -> list[Titled]:
        title = f"Temporal tracking is {self.result.temporal_tracking}: {self.result.reason}."
        return [(title, ["", "this log"], self.rows)]

    @property
    def rows(self) -> list[list[str]]:
        """The figures of the whole log: name and value."""
        found = self.result
        bins = f"observations per bin, median ({found.time_bins} bins)"
        return [
            ["items", count(found.items)],
            ["observations per item, median", count(found.obs_per_item_median)],
            [bins, count(found.obs_per_bin_median, 2)],
            ["largest Fisher weight per bin", count(found.w_max, 3)],
            ["smallest visible drift per bin, logit", number(found.delta_min, 3)],
            ["observed drift per bin (noise included), logit", number(found.delta_obs_median, 3)],
            ["items whose drift is visible", share(found.detectable_item_share, 1)],
            [
                f"observations per item to see {found.reference_drift:g} logit",
                count(found.required_obs_per_item),
            ],
        ]


def compare(
    calibration: Frame,
    test: Frame,
    *,
    methods: Sequence[str] | None = None,
    columns: Mapping[str, str] | None = None,
    history: Frame | None = None,
    prior_var: float = 1.0,
    time_bins: int = 10,
    strict: bool = False,
    n_jobs: int | None = None,
) -> Compared:
    """Fit methods on one frame and score them on a later one, as ``slc-ops compare`` does.

    Args:
        calibration: Rows to fit, with ``item_id``, ``label`` and ``logit`` (or ``probability``);
            ``user_id`` and ``event_time`` improve the evidence.
        test: Later rows to score.
        methods: Names of methods; default all that the columns allow.
        columns: Contract names mapped to the frame's own: ``{"item_id": "problem", "label": "correct"}``.
        history: Earlier rows that help to place the time bins.
        prior_var: Prior variance of the item offsets.
        time_bins: Number of time bins of methods by item and time.
        strict: Raise instead of a `CompareWarning` if the pair is not fair (the same rows twice, times that
            overlap, probabilities given as logits).
        n_jobs: Threads; None is one per core.

    Raises:
        FrameError: Unusable rows or columns (a ``ValueError``).
        CannotFit: The labels have only one class.
        BadOption: An unknown method or an invalid option.
    """
    methods = [methods] if isinstance(methods, str) else methods
    with as_value_errors():
        found = Compared(
            comparison.compare(
                as_log(calibration, columns, name="the calibration frame"),
                as_log(test, columns, name="the test frame"),
                methods=methods,
                history=None if history is None else as_log(history, columns, name="the history frame"),
                options=FitOptions(prior_var=prior_var, time_bins=time_bins, threads=n_jobs),
                strict=strict,
            )
        )
    for text in map(in_python, found.warnings):
        warnings.warn(text, CompareWarning, stacklevel=2)
    return found


def detectability(
    frame: Frame, *, columns: Mapping[str, str] | None = None, time_bins: int = 10, alpha: float = 0.05
) -> Detectable:
    """Compute the item drift that these rows can detect, as ``slc-ops detectability`` does.

    Args:
        frame: Rows with ``event_time``, ``item_id``, ``label`` and ``logit`` (or ``probability``).
        columns: Contract names mapped to the frame's own.
        time_bins: Number of time bins between which drift is measured.
        alpha: Significance level of the test for drift.

    Raises:
        FrameError: Unusable rows or columns (a ``ValueError``).
    """
    with as_value_errors():
        return Detectable(drift.detectability(as_log(frame, columns), time_bins=time_bins, alpha=alpha))
