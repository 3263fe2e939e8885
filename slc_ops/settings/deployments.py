"""The deployments file: one entry per frozen model. Larger blocks have their own modules beside this one."""

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

from slc_ops.base.errors import SettingsError
from slc_ops.base.methods import METHODS, method_named
from slc_ops.base.names import valid_name
from slc_ops.base.window import Cadence, Window, day_start
from slc_ops.settings.blocks import Decision, Forget, Notify, SettingsBlock
from slc_ops.settings.quality import Quality
from slc_ops.settings.sources import Source
from slc_ops.settings.window import Duration, Schedule, WindowGrid, as_schedule


def _known_method(name: str) -> str:
    try:
        return method_named(name).name
    except SettingsError as error:
        raise ValueError(str(error)) from None  # pydantic collects ValueErrors


MethodName = Annotated[str, AfterValidator(_known_method), Field(json_schema_extra={"enum": list(METHODS)})]
Name = Annotated[str, AfterValidator(valid_name)]


class Deployment(SettingsBlock):
    """One frozen model in production and the settings of its correction."""

    source: Source = Field(description="the log: [sources](sources.md)")
    labels: Source | None = Field(
        default=None,
        description="a second source, with `event_id`, `label` and the time at which the label was known "
        "(`event_time`), if outcomes have a separate source",
    )
    label_lag: Duration | None = Field(
        default=None,
        description="maximum delay of labels: a window is refreshed that long after its end, and rows "
        "without a label are read again later; unset: such rows are invalid",
    )
    window: WindowGrid = Field(default=WindowGrid(), description="length and start of a window, below")
    refresh_every: int = Field(
        default=1, ge=1, le=366, description="windows from one scheduled refresh to the next"
    )
    methods: tuple[MethodName, ...] = Field(
        default=("base", "platt_eb", "slc_eb", "slc_mix"),
        description="methods that are compared and may serve; `base` and `platt_eb` are always included, "
        "`platt` is always compared and serves only if listed",
    )
    link_windows: int = Field(default=4, ge=1, le=520, description="windows that a method is fitted on")
    offset_windows: int = Field(
        default=8,
        ge=1,
        le=520,
        description="windows for the offsets of `slc_eb`; its link uses `link_windows`",
    )
    effects: tuple[Literal["item", "slope", "group", "user"], ...] = Field(
        default=("item", "slope", "group"),
        description="effects that `slc_mix` may add to the line: offsets and slopes of items, effects of "
        "groups and, only if named, of users: a table of users is personal data",
    )
    forget: Forget = Field(default=Forget(), description="memory of `slc_mix`, below")
    evidence_windows: int = Field(
        default=13, ge=1, le=520, description="past windows that decide which method serves"
    )
    lookback_windows: int = Field(
        default=1, ge=0, le=520, description="past windows that late rows and labels may still reach"
    )
    prior_var: float = Field(default=1.0, gt=0, description="σ², the prior variance of item offsets")
    time_bins: int = Field(
        default=10,
        ge=2,
        le=10_000,
        description="time bins of methods that track drift, and of the detectability report",
    )
    engine: Literal["local", "spark"] = Field(
        default="local",
        description="where rows are processed: `local` in the task's process, `spark` on the cluster of "
        "`SLC_OPS_SPARK_MASTER`",
    )
    schedule: Annotated[
        Schedule | None, BeforeValidator(as_schedule, json_schema_input_type=str | Schedule | None)
    ] = Field(
        default=None,
        description="unset: as soon as a window is over and its labels are due; otherwise a cron expression, "
        "or a block, below",
    )
    wait_for_source: Duration | None = Field(
        default=None, description="how long a run waits for rows of its window before it fails"
    )
    verdict_due: Duration | None = Field(
        default=None,
        description="maximum time between a window's labels being due and its verdict; then `late` is sent",
    )
    gate: Literal["auto", "manual", "never"] = Field(
        default="manual",
        description="another method: `auto` changes it on the verdict, `manual` asks a person in Airflow, "
        "`never` only registers",
    )
    renew: Literal["auto", "gate"] = Field(
        default="auto",
        description="new parameters of the served method: `auto` renews them every window (unless the gate "
        "is `never`), `gate` applies the gate",
    )
    approval_hours: float = Field(
        default=72, gt=0, le=8760, description="a manual gate holds after this time, at most a year"
    )
    on_new_backbone: Literal["stop", "split"] = Field(
        default="stop",
        description="a window with mixed backbone versions stops, or only its rows of the last version are "
        "used; windows of another version are always left out",
    )
    champion_of_another_backbone: Literal["retire", "keep"] = Field(
        default="retire",
        description="if the newest window has another backbone: the champion is retired, or keeps serving",
    )
    on_backbone_mismatch: Literal["frozen", "refuse", "serve"] = Field(
        default="frozen",
        description="answer to rows whose caller names another backbone than the champion's: the frozen "
        "probability, an error, or the correction",
    )
    approvers: tuple[Annotated[str, Field(min_length=1, max_length=200)], ...] = Field(
        default=(),
        description="ids of the Airflow users who may answer a manual gate; others get 403. Empty: everybody "
        "who may edit the run",
    )
    notify: Notify = Field(default=Notify(), description="notifications, below")
    decision: Decision = Field(default=Decision(), description="limits of a change of method, below")
    quality: Quality = Field(default=Quality(), description="limits of validation, below")
    keep_windows: int = Field(
        default=104,
        ge=1,
        le=10_000,
        description="newest windows that `slc-ops clean` keeps on disk; if set, the DAG `slc_clean` cleans "
        "every night",
    )
    keep_refreshes: int = Field(
        default=52,
        ge=1,
        le=10_000,
        description="newest windows whose refreshes `slc-ops clean` keeps on disk; the same",
    )
    owner: str = Field(default="slc-ops", description="owner shown in Airflow")
    start: date = Field(
        default=date(2025, 1, 6),
        ge=date(1970, 1, 1),
        le=date(2200, 1, 1),
        description="first day of the schedule",
    )
    end: date | None = Field(
        default=None,
        ge=date(1970, 1, 1),
        le=date(2200, 1, 1),
        description="day after the last window; unset: none",
    )

    @field_validator("methods")
    @classmethod
    def _each_method_once(cls, methods: tuple[MethodName, ...]) -> tuple[MethodName, ...]:
        twice = sorted({method for method in methods if methods.count(method) > 1})
        if twice or not methods:
            raise ValueError(f"lists {twice[0]!r} twice" if twice else "lists no method")
        return methods

    @field_validator("effects")
    @classmethod
    def _items_among_the_effects(cls, effects: tuple[str, ...]) -> tuple[str, ...]:
        if "item" not in effects or len(set(effects)) < len(effects):
            raise ValueError(f"is {', '.join(effects) or 'empty'}; item must be among them, each once")
        return effects

    @model_validator(mode="after")
    def _ends_after_start(self) -> Self:
        if self.end is not None and self.end <= self.start:
            raise ValueError(f"end {self.end} must lie after start {self.start}")
        return self

    def with_methods(self, methods: Sequence[str]) -> "Deployment":
        """Return the deployment with other methods to compare; unchanged when ``methods`` is empty."""
        if not methods:
            return self
        return Deployment.model_validate({**self.model_dump(), "methods": tuple(methods)})

    @property
    def cadence(self) -> Cadence:
        """Return the grid of the deployment's windows."""
        return self.window.cadence

    @property
    def lag(self) -> timedelta:
        """Return the time from the end of a window until its labels are due."""
        return self.label_lag or timedelta()

    @property
    def starts_at(self) -> datetime:
        """Return the start of the first day in the window's zone."""
        return day_start(self.start, self.window.zone)

    @property
    def ends_at(self) -> datetime | None:
        """Return the start of the day after the last window; None for an open end."""
        return None if self.end is None else day_start(self.end, self.window.zone)

    def window_due(self, timestamp: datetime) -> Window:
        """Return the last scheduled window whose labels are due at ``timestamp``."""
        window = self.cadence.complete_at(timestamp - self.lag)
        if self.refresh_every == 1:
            return window
        span = self.cadence.span(window, self.refresh_every)
        last = self.cadence.complete_at(span.end)
        return last if last == window else self.cadence.complete_at(span.start)

    def newest_window(self, due: datetime) -> Window:
        """Return the last window due at ``due`` that the deployment covers."""
        return self.window_due(due if self.ends_at is None else min(due, self.ends_at + self.lag))


class Deployments(SettingsBlock):
    """The deployments file."""

    deployments: dict[Name, Deployment]


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of the deployments file, for editors and other tools."""
    dialect = "https://json-schema.org/draft/2020-12/schema"
    return {"$schema": dialect, **Deployments.model_json_schema()}
