"""The ``quality`` block: the conditions that a window must meet before methods are fitted on it."""

from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from slc_ops.settings.blocks import SettingsBlock
from slc_ops.settings.expectations import OwnExpectation


def in_order(bounds: tuple[float, float]) -> tuple[float, float]:
    """Return the bounds; raise ``ValueError`` when the lower one exceeds the upper one."""
    if bounds[0] > bounds[1]:
        raise ValueError(f"the lower bound {bounds[0]:g} lies above the upper bound {bounds[1]:g}")
    return bounds


Bounds = Annotated[tuple[float, float], AfterValidator(in_order)]


class Limit(SettingsBlock):
    """An upper limit of a statistic: a warning above ``warn``, a stop of the refresh above ``stop``."""

    warn: float | None = Field(default=None, description="above this the window is used, with a warning")
    stop: float | None = Field(default=None, description="above this the refresh stops")

    @model_validator(mode="after")
    def _warns_before_it_stops(self) -> Self:
        if self.warn is not None and self.stop is not None and self.warn > self.stop:
            raise ValueError(f"warn {self.warn:g} lies above stop {self.stop:g}")
        return self


class Band(SettingsBlock):
    """A ratio to the trailing windows: a warning outside ``warn``, a stop of the refresh outside ``stop``."""

    warn: Bounds | None = Field(
        default=None, description="outside of this the window is used, with a warning"
    )
    stop: Bounds | None = Field(default=None, description="outside of this the refresh stops")


class Quality(SettingsBlock):
    """The conditions that a window must meet before methods are fitted on it."""

    row_budget: float = Field(
        default=0.005,
        ge=0,
        lt=1,
        description="share of rows that may fail a row check and are quarantined; a larger share stops",
    )
    logit_limit: float = Field(default=50.0, gt=0, description="largest plausible absolute value of a logit")
    require_event_ids: bool = Field(
        default=True, description="stop if rows have no `event_id`; an offline backtest needs none"
    )
    allow_mixed_backbones: bool = Field(
        default=False, description="accept a window with mixed backbone versions; otherwise it stops"
    )
    refuse_probabilities_as_logits: bool = Field(
        default=True,
        description="stop if all logits are in [0, 1] and fit the labels better as probabilities",
    )
    user_item_limit: float | None = Field(
        default=100.0,
        ge=5,
        description="maximum weight of one user on one item, in multiples of the usual weight; rows beyond "
        "it count less, at most as all other users of the item, and a warning names them; null: no limit; "
        "not applied with `engine: spark`",
    )
    docs_windows: int = Field(
        default=26, ge=1, le=10_000, description="number of windows that keep their page"
    )
    rows: Band = Field(
        default=Band(warn=(0.6, 1.7), stop=(0.0, 5.0)),
        description="rows of the window, relative to the baseline windows' median; of a daily window, to "
        "that of the same weekday. Stops of rows, items and label rate need three earlier windows",
    )
    rows_by_day: Band = Field(
        default=Band(warn=(0.5, 2.0)),
        description="rows of any one day, relative to the median of the same day of the baseline windows "
        "(days of at least 100 rows there)",
    )
    label_rate_shift: Limit = Field(
        default=Limit(warn=0.05),
        description="distance of the label rate from that of the baseline windows",
    )
    label_rate_leap: Limit = Field(
        default=Limit(stop=8.0),
        description="the same distance in multiples of the baseline windows' own distance from their mean "
        "(at least 0.05): a repeated change only warns, an unprecedented one stops",
    )
    label_misfit: Limit = Field(
        default=Limit(warn=3.0),
        description="rise of the frozen model's excess NLL (its NLL minus the NLL that it expects) above the "
        "mean of the baseline windows, in multiples of their largest distance from it, or of twice its "
        "standard error; needs three of them",
    )
    logit_mean_shift: Limit = Field(
        default=Limit(warn=0.25, stop=1.0),
        description="distance of the mean logit from that of the baseline windows, in their standard "
        "deviations",
    )
    logit_sd_ratio: Band = Field(
        default=Band(warn=(0.75, 1.33), stop=(0.4, 2.5)),
        description="standard deviation of the logits, relative to the baseline windows",
    )
    unseen_items: Limit = Field(
        default=Limit(warn=0.2, stop=0.8),
        description="share of items missing from the baseline windows, beyond the share that is usual among "
        "these",
    )
    repeated_rows: Limit = Field(
        default=Limit(warn=0.001, stop=0.5),
        description="share of rows that repeat an earlier (user, item, time, label)",
    )
    backbone_mix_shift: Limit = Field(
        default=Limit(warn=0.02),
        description="share of rows whose backbone version differs from the baseline windows' mix",
    )
    unlabelled: Limit = Field(
        default=Limit(warn=0.02, stop=0.2),
        description="with `label_lag` or `labels`: share of rows without a label when it was due",
    )
    labels_unmatched: Limit = Field(
        default=Limit(warn=0.02, stop=0.5),
        description="with `labels`: share of the window's labels without a row",
    )
    labels_repeated: Limit = Field(
        default=Limit(warn=0.01, stop=0.5),
        description="with `labels`: share of further labels of an event; the newest counts",
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
        description="share of rows whose label differs from the previous extraction",
    )
    served_off: Limit = Field(
        default=Limit(warn=0.001, stop=0.5),
        description="with `served_probability`: share of rows more than 1e-6 from the answer of "
        "`served_version`",
    )
    silent_hours: Limit = Field(default=Limit(warn=24.0), description="longest time without a row, in hours")
    expectations: tuple[OwnExpectation, ...] = Field(
        default=(), description="additional rules: [expectations](#expectations-of-your-own)"
    )
