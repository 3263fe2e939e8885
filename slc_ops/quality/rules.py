"""The suite's expectations as a list of rules: critical stops, warning annotates."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any

from slc_ops.intake.contract import ALLOWED_TYPES, REPEATED_TIMES, REQUIRED, SKIPPED_TIMES
from slc_ops.quality.result import Severity
from slc_ops.quality.rows import DUPLICATE, DUPLICATE_SENTENCE, SEEN_BEFORE, SEEN_BEFORE_SENTENCE, RowCheck
from slc_ops.settings.quality import Band, Limit, Quality

CHANGES = ("rows_unusual", "rows_by_day", "label_rate_shift", "label_rate_leap", "items_unseen")
"""Codes that may be real changes as well as damage: found twice in a row, they do not stop."""
ENOUGH_WINDOWS = 3
"""Minimum number of windows in the baseline for such a change to stop."""

COUNTED = {
    "rows_without_time": "rows without a time belong to no window",
    REPEATED_TIMES: "repeated local times count as the first of the two; log in UTC",
    SKIPPED_TIMES: "skipped local times are moved forward by the skipped time; log in UTC",
    "columns_changed": "columns differ from the previous window: a missing weight is 1, a probability "
    "becomes its logit, an integer and its text are one id",
}
"""Measures of which any count above 0 is a warning."""


@dataclass(frozen=True)
class Rule:
    """One expectation about one measure: a range (``low`` to ``high``) or a set of values."""

    code: str
    measure: str
    severity: Severity
    sentence: str
    low: float | None = None
    high: float | None = None
    values: tuple[str, ...] = ()
    about_rows: bool = False
    words: str = ""
    """The expectation in words, if neither a range nor values describe it."""
    is_stop: bool = False
    """True for the stop limit, even if it only warns for lack of history."""

    def met_by(self, observed: Any) -> bool:
        """Return True if a measure meets the rule; a test compares this with Great Expectations."""
        if self.values:
            return observed in self.values
        return (self.low is None or observed >= self.low) and (self.high is None or observed <= self.high)

    @property
    def expected(self) -> str:
        """The expectation as text."""
        if self.words:
            return self.words
        if self.values:
            return f"expected {' or '.join(self.values)}"
        if self.about_rows:
            return f"the budget is {self.high:.2%} of the rows" if self.high else "none should"
        bounds = [f"at least {self.low:g}"] if self.low is not None else []
        bounds += [f"at most {self.high:g}"] if self.high is not None else []
        return f"expected {' and '.join(bounds)}"


def rules(quality: Quality, checks: tuple[RowCheck, ...]) -> Iterator[Rule]:
    """Yield the whole suite, most fundamental rules first."""
    yield Rule("window_empty", "rows", "critical", "a window must have rows", low=1)
    yield from schema_rules(REQUIRED if quality.require_event_ids else {*REQUIRED} - {"event_id"})
    yield from row_rules(quality.row_budget, checks)
    if quality.refuse_probabilities_as_logits:
        yield Rule(
            "logits_like_probabilities", "logits_like_probabilities", "critical",
            "map the column to probability: all logits lie in [0, 1] and explain the labels better as such",
            high=0,
        )  # fmt: skip
    yield Rule("label_one_class", "label_rate", "critical", "both labels must occur", low=1e-9, high=1 - 1e-9)
    if not quality.allow_mixed_backbones:
        yield Rule(
            "backbones_mixed", "backbone_versions", "critical",
            "a window must come from one backbone version; on_new_backbone: split uses those of the newest",
            high=1,
        )  # fmt: skip
    for code, sentence in COUNTED.items():
        yield Rule(code, code, "warning", sentence, high=0)
    yield Rule(
        "history_empty", "windows_before", "warning",
        "no earlier window has usable rows: rows, items, labels and logits are not compared",
        low=1,
    )  # fmt: skip
    yield from drift_rules(quality)


def softened(rule: Rule, windows: int, found_before: Collection[str]) -> Rule:
    """Return the rule, or a warning instead of a stop: for lack of history, or if found twice in a row."""
    if rule.code not in CHANGES or rule.severity != "critical":
        return rule
    if rule.code in found_before:
        why = "the previous window had it, too: accepted as a lasting change"
    elif windows < ENOUGH_WINDOWS:
        why = f"only a warning: a stop needs {ENOUGH_WINDOWS} windows to compare with, there are {windows}"
    else:
        return rule
    return replace(rule, severity="warning", words=f"{rule.expected}; {why}")


def schema_rules(required: Collection[str]) -> Iterator[Rule]:
    """Yield rules on columns and types; a log has logits or probabilities."""
    for column, types in ALLOWED_TYPES.items():
        values = types if column in required else (*types, "missing")
        yield Rule(
            f"{column}_type",
            f"type_{column}",
            "critical",
            f"column {column} must exist with its type",
            values=values,
        )
    yield Rule(
        "score_missing", "score_columns", "critical", "the log needs a column logit or probability", low=1
    )


def row_rules(budget: float, checks: tuple[RowCheck, ...]) -> Iterator[Rule]:
    """Yield each check twice: failing rows are quarantined, and above the budget they stop the refresh."""
    sentences = {check.code: check.sentence for check in checks} | {
        DUPLICATE: DUPLICATE_SENTENCE,
        SEEN_BEFORE: SEEN_BEFORE_SENTENCE,
    }
    for code, sentence in sentences.items():
        yield Rule(code, f"share_{code}", "critical", sentence, high=budget, about_rows=True)
        yield Rule(code, f"share_{code}", "warning", sentence, high=0.0, about_rows=True)
    yield Rule(
        "quarantine_over_budget", "share_failed_rows", "critical", "only a few rows may fail row checks",
        high=budget, about_rows=True,
    )  # fmt: skip


def drift_rules(quality: Quality) -> Iterator[Rule]:
    """Yield rules on the window as a whole, mostly against the trailing windows."""
    past = "the trailing windows"
    limits: tuple[tuple[str, str, str, Limit | Band], ...] = (
        ("rows_unusual", "rows_ratio", f"rows relative to {past}' median", quality.rows),
        (
            "rows_by_day", "rows_by_day_ratio",
            f"rows of any one day relative to the same day of {past}", quality.rows_by_day,
        ),
        ("label_rate_shift", "label_rate_shift", f"label rate against {past}", quality.label_rate_shift),
        (
            "label_rate_leap", "label_rate_leap",
            f"label rate against {past}, in multiples of their own variation", quality.label_rate_leap,
        ),
        (
            "label_misfit", "label_misfit_leap",
            "labels contradict the frozen model more than usual: some are wrong, or their causes changed; "
            f"excess NLL against {past}, in multiples of their variation", quality.label_misfit,
        ),
        (
            "logit_mean_shift", "logit_mean_shift",
            f"mean logit against {past}, in their standard deviations", quality.logit_mean_shift,
        ),
        ("logit_sd_ratio", "logit_sd_ratio", f"sd of the logits relative to {past}", quality.logit_sd_ratio),
        (
            "items_unseen", "share_unseen_items",
            f"share of items not seen in {past}, beyond the usual one", quality.unseen_items,
        ),
        (
            "rows_repeated", "share_repeated_rows",
            "share of rows that repeat an earlier (user, item, time, label)", quality.repeated_rows,
        ),
        (
            "backbone_mix", "backbone_mix_shift",
            f"share of rows whose backbone version departs from {past}", quality.backbone_mix_shift,
        ),
        ("rows_unlabelled", "share_unlabelled", "share of rows without a due label", quality.unlabelled),
        (
            "labels_unmatched", "share_labels_unmatched",
            "share of labels that belong to no row", quality.labels_unmatched,
        ),
        (
            "labels_repeated", "share_labels_repeated",
            "share of further labels of an event", quality.labels_repeated,
        ),
        (
            "labels_contradictory", "share_labels_contradictory",
            "share of events whose newest labels contradict each other", quality.labels_contradictory,
        ),
        (
            "labels_early", "share_labels_early",
            "share of rows whose label is earlier than the row", quality.labels_early,
        ),
        (
            "labels_changed", "share_labels_changed",
            "share of rows whose label has changed since the previous extraction", quality.labels_changed,
        ),
        ("hours_silent", "silent_hours", "longest time without a row, in hours", quality.silent_hours),
    )  # fmt: skip
    severities: tuple[Severity, Severity] = ("critical", "warning")
    for code, measure, sentence, limit in limits:
        for severity, bound in zip(severities, (limit.stop, limit.warn), strict=True):
            if bound is not None:
                low, high = bound if isinstance(bound, tuple) else (None, bound)
                stops = severity == "critical"
                yield Rule(code, measure, severity, sentence, low=low, high=high, is_stop=stops)
