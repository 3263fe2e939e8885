"""The deployments file: one entry per frozen model. Its blocks have modules of their own beside this one."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, field_validator, model_validator

from slc_ops.base.errors import UnknownMethod
from slc_ops.base.methods import method_named
from slc_ops.base.names import valid_name
from slc_ops.base.window import Window
from slc_ops.settings.decision import Decision
from slc_ops.settings.deployments_file import BrokenEntry, load_deployments, read_deployments
from slc_ops.settings.environment import Places
from slc_ops.settings.notify import Notifier, Notify
from slc_ops.settings.part import Part
from slc_ops.settings.quality import Band, Limit, Quality
from slc_ops.settings.sources import (
    FilesSource,
    LakeSource,
    Partition,
    SimulatorSource,
    Source,
    SqlSource,
)

__all__ = [
    "Band", "BrokenEntry", "Decision", "Deployment", "Deployments", "FilesSource", "LakeSource", "Limit",
    "MethodName", "Name", "Notifier", "Notify", "Part", "Partition", "Places", "Quality", "SimulatorSource",
    "SqlSource", "load_deployments", "read_deployments", "valid_name",
]  # fmt: skip


def _known_method(name: str) -> str:
    try:
        return method_named(name).name
    except UnknownMethod as error:
        raise ValueError(str(error)) from None  # pydantic collects these


MethodName = Annotated[str, AfterValidator(_known_method)]
Name = Annotated[str, AfterValidator(valid_name)]


class Deployment(Part):
    """One frozen model in production whose predictions are corrected every week."""

    source: Source = Field(description="where the log lies, below")
    methods: tuple[MethodName, ...] = Field(
        default=("base", "platt", "slc"),
        description="what is compared; `base` and `platt` are always there",
    )
    calibration_weeks: int = Field(default=4, ge=1, le=520, description="weeks a method learns from")
    folds: int = Field(default=4, ge=1, le=520, description="past weeks the comparison is made on")
    lookback_weeks: int = Field(
        default=1, ge=0, le=520, description="past weeks that late rows may still reach"
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
        description="where rows are worked on: `local` in the task's own process, `spark` on the cluster of "
        "`SLC_OPS_SPARK_MASTER`",
    )
    schedule: str = Field(default="0 0 * * 1", description="cron, UTC")
    gate: Literal["auto", "manual", "never"] = Field(
        default="manual",
        description="`auto` promotes on the verdict, `manual` asks a person in Airflow, "
        "`never` only registers",
    )
    approval_hours: float = Field(
        default=72, gt=0, le=8760, description="a manual gate holds after this long, at most a year"
    )
    on_backbone_mismatch: Literal["frozen", "refuse", "serve"] = Field(
        default="frozen",
        description="what a server does with rows whose caller names another backbone than the champion was "
        "fitted for: the frozen probability, an error, or the correction nevertheless",
    )
    notify: Notify = Field(
        default=Notify(), description="who hears of stops, rejections and rollbacks, below"
    )
    decision: Decision = Field(default=Decision(), description="thresholds of the gate, below")
    quality: Quality = Field(default=Quality(), description="what a window must look like, below")
    keep_windows: int = Field(
        default=104, ge=1, le=10_000, description="newest windows that `slc-ops clean` keeps on disk"
    )
    keep_refreshes: int = Field(
        default=52,
        ge=1,
        le=10_000,
        description="newest windows whose refreshes `slc-ops clean` keeps on disk",
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
        description="day after the last window; open when unset",
    )

    @field_validator("methods")
    @classmethod
    def _each_method_once(cls, methods: tuple[MethodName, ...]) -> tuple[MethodName, ...]:
        twice = sorted({method for method in methods if methods.count(method) > 1})
        if twice or not methods:
            raise ValueError(f"lists {twice[0]!r} twice" if twice else "lists no method")
        return methods

    @field_validator("schedule")
    @classmethod
    def _a_cron_expression(cls, schedule: str) -> str:
        from croniter import CroniterError, croniter

        try:
            croniter(
                schedule, datetime(2026, 1, 5, tzinfo=UTC)
            ).get_next()  # 31 February parses, and never comes
        except CroniterError:
            raise ValueError(
                f"{schedule!r} is no schedule; write a cron expression, for example 0 0 * * 1 (Mondays)"
            ) from None
        return schedule

    @model_validator(mode="after")
    def _ends_after_start(self) -> Self:
        if self.end is not None and self.end <= self.start:
            raise ValueError(f"end {self.end} must lie after start {self.start}")
        return self

    def with_methods(self, methods: Sequence[str]) -> "Deployment":
        """The same deployment with other methods to compare; with none, as it is."""
        if not methods:
            return self
        return Deployment.model_validate({**self.model_dump(), "methods": tuple(methods)})

    @property
    def starts_at(self) -> datetime:
        """The start in UTC."""
        return datetime.combine(self.start, time(), UTC)

    @property
    def ends_at(self) -> datetime | None:
        """The end in UTC."""
        return None if self.end is None else datetime.combine(self.end, time(), UTC)

    def newest_window(self, due: datetime) -> Window:
        """The last complete week at ``due`` that the deployment covers."""
        last = due if self.ends_at is None else min(due, self.ends_at)
        return Window.week_of(last - timedelta(days=7))


class Deployments(Part):
    """The deployments file."""

    deployments: dict[Name, Deployment]
