"""The ``quality`` block: what a window must look like before anything is fitted on it."""

from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from slc_ops.settings.blocks import SettingsBlock
from slc_ops.settings.expectations import OwnExpectation


def in_order(bounds: tuple[float, float]) -> tuple[float, float]:
    """A band whose lower bound is not above its upper one."""
    if bounds[0] > bounds[1]:
        raise ValueError(f"the lower bound {bounds[0]:g} lies above the upper bound {bounds[1]:g}")
    return bounds


Bounds = Annotated[tuple[float, float], AfterValidator(in_order)]


class Limit(SettingsBlock):
    """An upper limit of a statistic: above ``warn`` it annotates the report, above ``stop`` it stops."""

    warn: float | None = Field(default=None, description="above this the window is used, with a warning")
    stop: float | None = Field(default=None, description="above this the refresh stops")

    @model_validator(mode="after")
    def _warns_before_it_stops(self) -> Self:
        if self.warn is not None and self.stop is not None and self.warn > self.stop:
            raise ValueError(f"warn {self.warn:g} lies above stop {self.stop:g}")
        return self


class Band(SettingsBlock):
    """A ratio to the trailing windows: outside ``warn`` it annotates, outside ``stop`` it stops."""

    warn: Bounds | None = Field(
        default=None, description="outside of this the window is used, with a warning"
    )
    stop: Bounds | None = Field(default=None, description="outside of this the refresh stops")


class Quality(SettingsBlock):
    """What a window must look like before anything is fitted on it."""

    row_budget: float = Field(
        default=0.005,
        ge=0,
        lt=1,
        description="share of rows that may fail a row check: they are put aside; a larger share stops",
    )
    logit_limit: float = Field(default=50.0, gt=0, description="largest plausible size of a logit")
    require_event_ids: bool = Field(
        default=True, description="stop when rows carry no `event_id`; an offline backtest does without them"
    )
    allow_mixed_backbones: bool = Field(
        default=False, description="accept a window that mixes backbone versions; otherwise it stops"
    )
    refuse_probabilities_as_logits: bool = Field(
        default=True,
        description="stop when all logits lie in [0, 1] and explain the labels better as probabilities",
    )
    user_item_limit: float | None = Field(
        default=100.0,
        ge=5,
        description="what one user may count for one item, in multiples of the usual weight of a user on an "
        "item: rows beyond it get smaller weights, and a warning names them; null: no limit",
    )
    docs_windows: int = Field(default=26, ge=1, le=10_000, description="windows whose page is kept")
    rows: Band = Field(
        default=Band(warn=(0.6, 1.7), stop=(0.0, 5.0)),
        description="rows of the window, relative to the trailing windows' median; of a daily window, to "
        "that of the same weekday. Stops, like those of items and label rate, need three earlier windows",
    )
    rows_by_day: Band = Field(
        default=Band(warn=(0.5, 2.0)),
        description="rows of any one day, relative to the median of the same day of the trailing windows "
        "(days of at least 100 rows there)",
    )
    label_rate_shift: Limit = Field(
        default=Limit(warn=0.05),
        description="distance of the label rate from the trailing windows'",
    )
    label_rate_leap: Limit = Field(
        default=Limit(stop=8.0),
        description="the same distance in multiples of how far the trailing windows lie from their own mean "
        "(at least 0.05): news is used, with a warning; what no window ever showed stops",
    )
    logit_mean_shift: Limit = Field(
        default=Limit(warn=0.25, stop=1.0),
        description="distance of the mean logit from the trailing windows', in their standard deviations",
    )
    logit_sd_ratio: Band = Field(
        default=Band(warn=(0.75, 1.33), stop=(0.4, 2.5)),
        description="standard deviation of the logits, relative to the trailing windows'",
    )
    unseen_items: Limit = Field(
        default=Limit(warn=0.2, stop=0.8), description="share of items that the trailing windows do not have"
    )
    repeated_rows: Limit = Field(
        default=Limit(warn=0.001, stop=0.5),
        description="share of rows that repeat an earlier (user, item, time, label)",
    )
    backbone_mix_shift: Limit = Field(
        default=Limit(warn=0.02),
        description="share of rows whose backbone version departs from the trailing windows' mix",
    )
    unlabelled: Limit = Field(
        default=Limit(warn=0.02, stop=0.2),
        description="with `label_lag` or `labels`: share of rows whose label has not come when it was due",
    )
    labels_unmatched: Limit = Field(
        default=Limit(warn=0.02, stop=0.5),
        description="with `labels`: share of the window's labels that belong to no row of it",
    )
    labels_repeated: Limit = Field(
        default=Limit(warn=0.01, stop=0.5),
        description="with `labels`: share of labels of an event that has another; the newest counts",
    )
    labels_contradictory: Limit = Field(
        default=Limit(warn=0.0, stop=0.02),
        description="with `labels`: share of events with several newest labels; none of them counts",
    )
    labels_early: Limit = Field(
        default=Limit(warn=0.0, stop=0.02),
        description="with `labels`: share of rows whose label is older than the row; it does not count",
    )
    labels_changed: Limit = Field(
        default=Limit(warn=0.0),
        description="share of rows whose label is another than when the window was extracted before",
    )
    served_off: Limit = Field(
        default=Limit(warn=0.001, stop=0.5),
        description="with `served_probability`: share of rows over 1e-6 from what `served_version` answers",
    )
    silent_hours: Limit = Field(
        default=Limit(warn=24.0), description="longest stretch of hours without a row"
    )
    expectations: tuple[OwnExpectation, ...] = Field(
        default=(), description="rules of the deployment's own: [expectations](#expectations-of-your-own)"
    )
