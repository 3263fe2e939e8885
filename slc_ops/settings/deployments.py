"""What an operator sets: places (from the environment) and deployments (from one YAML file)."""

import os
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, ValidationError, field_validator, model_validator

from slc_ops.base.errors import SettingsError
from slc_ops.base.names import valid_name
from slc_ops.base.window import Window
from slc_ops.settings.sources import (
    FilesSource,
    LakeSource,
    Part,
    Partition,
    SimulatorSource,
    Source,
    SqlSource,
)

__all__ = [
    "Band", "Decision", "Deployment", "Deployments", "FilesSource", "LakeSource", "Limit", "Method", "Name",
    "Part", "Partition", "Places", "Quality", "SimulatorSource", "SqlSource", "load_deployments",
    "read_deployments", "valid_name",
]  # fmt: skip

Method = Literal[
    "base", "platt", "temperature", "isotonic", "histogram", "platt_time", "rescal", "rescal_iso",
    "naive", "ridge", "slc", "slc_t", "slc_iso", "slc_eb",
]  # fmt: skip


Name = Annotated[str, AfterValidator(valid_name)]


class Limit(Part):
    """An upper limit of a statistic: above ``warn`` it annotates the report, above ``stop`` it stops."""

    warn: float | None = None
    stop: float | None = None


class Band(Part):
    """A band for a ratio to the trailing weeks: outside ``warn`` it annotates, outside ``stop`` it stops."""

    warn: tuple[float, float] | None = None
    stop: tuple[float, float] | None = None


class Quality(Part):
    """What a window must look like before anything is fitted on it."""

    row_budget: float = Field(default=0.005, ge=0, lt=1, description="share of rows that may be quarantined")
    logit_limit: float = Field(default=50.0, gt=0, description="largest plausible |logit|")
    allow_mixed_backbones: bool = False
    refuse_probabilities_as_logits: bool = True
    docs_windows: int = Field(default=26, ge=1, description="windows whose page is kept")
    rows: Band = Band(warn=(0.6, 1.7), stop=(0.2, 5.0))
    label_rate_shift: Limit = Limit(warn=0.05, stop=0.2)
    logit_mean_shift: Limit = Limit(warn=0.25, stop=1.0)
    logit_sd_ratio: Band = Band(warn=(0.75, 1.33), stop=(0.4, 2.5))
    unseen_items: Limit = Limit(warn=0.2, stop=0.8)
    repeated_rows: Limit = Limit(warn=0.001, stop=0.5)
    backbone_mix_shift: Limit = Limit(warn=0.02)
    silent_hours: Limit = Limit(warn=24.0)


class Decision(Part):
    """Thresholds of the gate.

    Against ``platt`` a candidate must be better (AUC gain above ``min_auc_gain``, NLL loss below
    ``max_nll_loss``); against the reigning champion it must not be worse by more than the margins. Both are
    judged by the ends of the intervals, never by the estimates.
    """

    min_test_rows: int = Field(default=1000, ge=1)
    min_users: int = Field(default=30, ge=10, description="fewer users than this cannot carry an interval")
    confidence: float = Field(default=0.95, gt=0.5, lt=1)
    replicates: int = Field(default=1000, ge=100)
    min_auc_gain: float = Field(default=0.0, ge=0)
    max_nll_loss: float = Field(default=0.0, ge=0)
    champion_auc_margin: float = Field(default=0.001, ge=0)
    champion_nll_margin: float = Field(default=0.001, ge=0)
    max_slice_nll_loss: float | None = Field(
        default=None,
        ge=0,
        description="NLL loss allowed in any one slice; unset, a worse slice is only noted",
    )
    nll_tie: float = Field(default=0.0002, ge=0, description="mean NLLs this close are told apart by AUC")
    prior_vars: tuple[float, ...] = Field(default=(0.1, 1.0, 10.0), description="tried beside prior_var")
    time_bins: tuple[int, ...] = Field(default=(5, 10), description="tried beside time_bins")


class Notifier(Part):
    """An Airflow notifier, by its import path, with the arguments of its constructor (Jinja, no secrets)."""

    path: str = Field(
        pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+$", description="for example the SMTP notifier's class"
    )
    arguments: dict[str, Any] = Field(default_factory=dict)


class Notify(Part):
    """Who hears of it. Addresses and tokens live in Airflow connections, never here."""

    events: tuple[Literal["stop", "reject", "rollback"], ...] = ("stop", "reject", "rollback")
    webhook: str | None = Field(default=None, description="Airflow connection that gets the event as JSON")
    notifiers: tuple[Notifier, ...] = ()


class Deployment(Part):
    """One frozen model in production whose predictions are corrected every week."""

    source: Source
    methods: tuple[Method, ...] = ("base", "platt", "slc")
    calibration_weeks: int = Field(default=4, ge=1)
    folds: int = Field(default=4, ge=1)
    lookback_weeks: int = Field(default=1, ge=0)
    prior_var: float = Field(default=1.0, gt=0)
    time_bins: int = Field(default=10, ge=2)
    engine: Literal["local", "spark"] = Field(
        default="local", description="where rows are worked on; spark needs SLC_OPS_SPARK_MASTER"
    )
    schedule: str = "0 0 * * 1"
    gate: Literal["auto", "manual", "never"] = "manual"
    approval_hours: float = Field(default=72, gt=0, description="a manual gate holds after this long")
    notify: Notify = Notify()
    decision: Decision = Decision()
    quality: Quality = Quality()
    owner: str = "slc-ops"
    start: date = Field(default=date(2025, 1, 6), description="first day of the schedule")
    end: date | None = Field(default=None, description="day after the last window; open when absent")

    @field_validator("methods")
    @classmethod
    def _each_method_once(cls, methods: tuple[Method, ...]) -> tuple[Method, ...]:
        twice = sorted({method for method in methods if methods.count(method) > 1})
        if twice or not methods:
            raise ValueError(f"lists {twice[0]!r} twice" if twice else "lists no method")
        return methods

    @model_validator(mode="after")
    def _ends_after_start(self) -> Self:
        if self.end is not None and self.end <= self.start:
            raise ValueError(f"end {self.end} must lie after start {self.start}")
        return self

    @property
    def start_moment(self) -> datetime:
        """The start in UTC."""
        return datetime.combine(self.start, time(), UTC)

    @property
    def end_moment(self) -> datetime | None:
        """The end in UTC."""
        return None if self.end is None else datetime.combine(self.end, time(), UTC)

    def newest_window(self, due: datetime) -> Window:
        """The last complete week at ``due`` that the deployment covers."""
        last = due if self.end_moment is None else min(due, self.end_moment)
        return Window.week_of(last - timedelta(days=7))


class Deployments(Part):
    """The deployments file."""

    deployments: dict[Name, Deployment]


@dataclass(frozen=True)
class Places:
    """Where things lie. Everything defaults to ``var/`` in the working directory."""

    home: Path
    deployments_file: Path
    tracking_uri: str
    ledger_url: str
    artifact_root: str

    @classmethod
    def from_environment(cls) -> "Places":
        """``SLC_OPS_HOME``, ``SLC_OPS_DEPLOYMENTS``, ``MLFLOW_TRACKING_URI``, ``SLC_OPS_LEDGER_URL``."""
        home = Path(os.environ.get("SLC_OPS_HOME", "var")).absolute()
        return cls(
            home=home,
            deployments_file=Path(os.environ.get("SLC_OPS_DEPLOYMENTS", "dags/deployments.yaml")).absolute(),
            tracking_uri=os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{home}/mlflow/mlflow.db",
            ledger_url=os.environ.get("SLC_OPS_LEDGER_URL") or f"sqlite:///{home}/ledger.db",
            artifact_root=os.environ.get("SLC_OPS_ARTIFACT_ROOT") or (home / "mlflow" / "artifacts").as_uri(),
        )

    def windows(self, deployment: str) -> Path:
        """The immutable, validated windows of a deployment."""
        return self.home / "windows" / deployment

    def refreshes(self, deployment: str) -> Path:
        """What the refreshes of a deployment worked out."""
        return self.home / "refreshes" / deployment

    @cached_property
    def deployments(self) -> dict[str, Deployment]:
        """All deployments of the file; the first broken entry is an error."""
        return load_deployments(self.deployments_file)

    def deployment(self, name: str) -> Deployment:
        """One deployment by name. A broken entry of another name does not matter."""
        good, broken = read_deployments(self.deployments_file)
        for entry in broken:
            if entry.name == name:
                raise SettingsError(str(entry))
        if name not in good:
            known = ", ".join(sorted(good)) or "none"
            raise SettingsError(f"no deployment {name!r} in {self.deployments_file}; it knows: {known}")
        return good[name]


@dataclass(frozen=True)
class BrokenEntry:
    """An entry of the deployments file that cannot be used, and why."""

    name: str
    path: Path
    line: int
    reasons: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {'; '.join(self.reasons)}"


def load_deployments(path: Path) -> dict[str, Deployment]:
    """All deployments of a file; a broken entry is an error that names file, line and rule."""
    good, broken = read_deployments(path)
    if broken:
        raise SettingsError(str(broken[0]) + (f" (and {len(broken) - 1} more entries)" if broken[1:] else ""))
    return good


def read_deployments(path: Path) -> tuple[dict[str, Deployment], list[BrokenEntry]]:
    """The usable deployments of a file, and the broken entries: one of them does not take the others down.

    A file that cannot be read or is not YAML is an error as a whole.
    """
    from slc_ops.settings.yaml_file import read_blocks

    good: dict[str, Deployment] = {}
    broken = []
    for block in read_blocks(path):
        try:
            entry = Deployments.model_validate({"deployments": {block.name: block.value}})
            good |= entry.deployments
        except ValidationError as error:
            problems = [(block.line_of(found["loc"][2:]), reason(found)) for found in error.errors()]
            line = min(line for line, _ in problems)
            reasons = tuple(
                text if at == line else f"line {at}: {text}"
                for at, text in sorted(problems, key=lambda p: p[0])
            )
            broken.append(BrokenEntry(block.name, path, line, reasons))
    return good, broken


def reason(found: Any) -> str:
    """One complaint of pydantic for people: where, the rule, and what was there."""
    kind, location = found["type"], [str(step) for step in found["loc"] if step != "[key]"]
    where = ".".join(location)
    if kind == "extra_forbidden":  # the value may be a secret in the wrong place: it is not shown
        close = get_close_matches(location[-1], KEYS, n=1)
        return f"{where}: there is no such key" + (f"; did you mean {close[0]!r}?" if close else "")
    rule = found["msg"].removeprefix("Value error, ")
    shown = repr(found["input"])
    simple = isinstance(found["input"], (str, int, float, bool)) and len(shown) <= 60
    return f"{where}: {rule}" + (f", found {shown}" if simple and kind != "value_error" else "")


PARTS = (Deployment, Decision, Quality, LakeSource, SqlSource, FilesSource, SimulatorSource, Partition, Limit)
KEYS = sorted({key for part in PARTS for key in part.model_fields})
