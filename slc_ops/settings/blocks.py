"""The smaller blocks of the deployments file: decision, forget and notify."""

from typing import Annotated, Any, Literal, get_args
from zoneinfo import available_timezones

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator


def known_zone(zone: str) -> str:
    """Return the name of a time zone; raise ``ValueError`` for another text."""
    if zone not in available_timezones():
        raise ValueError(f"{zone!r} is not a time zone; use a name such as UTC or Europe/Berlin")
    return zone


Zone = Annotated[str, AfterValidator(known_zone)]


class SettingsBlock(BaseModel):
    """A block of the deployments file: immutable; unknown keys, infinities and NaN are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _as_written(cls, values: Any) -> Any:
        """Refuse bytes, and booleans for numbers, which pydantic would convert."""
        for name, value in values.items() if isinstance(values, dict) else ():
            if isinstance(value, bytes):
                raise ValueError(f"{name} must be plain text, found binary data")
            numeric = name in cls.model_fields and cls.model_fields[name].annotation in (int, float)
            if isinstance(value, bool) and numeric:
                raise ValueError(f"{name} must be a number, found {str(value).lower()}")
        return values


class Decision(SettingsBlock):
    """The rule for changing the method that serves, over the last ``evidence_windows`` windows.

    A method replaces another when its mean NLL over the windows is lower by ``min_gain`` and by one standard
    error, or when the interval of the mean at ``confidence`` lies below 0. Parameters are renewed every
    window without this test.
    """

    min_gain: float = Field(
        default=0.0005,
        gt=0,
        description="smaller mean differences in NLL decide nothing unless they are clear; among methods "
        "this close to the best, the simplest wins",
    )
    confidence: float = Field(default=0.95, gt=0.5, lt=1, description="level of the intervals")
    min_rows: int = Field(default=200, ge=0, description="scored rows before which the frozen model serves")
    min_users: int = Field(
        default=10, ge=0, description="users of one scored window before which the frozen model serves"
    )
    replicates: int = Field(
        default=1000, ge=100, le=1_000_000, description="replicates of the report's bootstrap"
    )
    max_slice_nll_loss: float | None = Field(
        default=None,
        ge=0,
        description="maximum NLL loss against Platt in any slice of the newest window; unset: a worse slice "
        "is only noted",
    )
    prior_vars: tuple[Annotated[float, Field(gt=0)], ...] = Field(
        default=(0.1, 1.0, 10.0), description="prior variances tried in addition to `prior_var`"
    )
    time_bins: tuple[Annotated[int, Field(ge=2, le=10_000)], ...] = Field(
        default=(5, 10), description="numbers of time bins tried in addition to `time_bins`"
    )


class Forget(SettingsBlock):
    """The memory of ``slc_mix``: rows have the weight 2^(−age/half_life), over this many windows."""

    half_life: float = Field(
        default=8.0, gt=0, le=10_000, description="number of windows after which a row counts half"
    )
    windows: int = Field(default=26, ge=1, le=520, description="windows that its effects are fitted on")


class Notifier(SettingsBlock):
    """An Airflow notifier, by its import path, with the arguments of its constructor (Jinja, no secrets)."""

    path: str = Field(
        pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+$", description="for example the SMTP notifier's class"
    )
    arguments: dict[str, Any] = Field(default_factory=dict, description="arguments of its constructor")


EventName = Literal[
    "stop", "reject", "approval", "promotion", "held", "rollback", "retired", "new_backbone", "late"
]
EVENTS: tuple[EventName, ...] = get_args(EventName)


class Notify(SettingsBlock):
    """Events to notify and their recipients. Addresses and tokens live in Airflow connections, never here."""

    events: tuple[EventName, ...] = Field(default=EVENTS, description="events that notify")
    webhook: str | None = Field(
        default=None, description="Airflow connection that receives the event as JSON"
    )
    notifiers: tuple[Notifier, ...] = Field(
        default=(), description="Airflow notifiers: `{path: import.path.of.Class, arguments: {…}}`"
    )
