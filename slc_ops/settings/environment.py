"""The one place where slc_ops reads its environment variables, typed and validated.

Each class holds the variables of one part of the system and is read on use: an invalid ``SLC_OPS_SPARK_WAIT``
does not break ``slc-ops status``. Variables of other programs (Airflow, MLflow's credentials, the database
that ``url_env`` names) are read by the code that uses them.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError

from slc_ops.base.errors import SettingsError
from slc_ops.base.names import model_name
from slc_ops.settings.deployments_file import load_deployments, read_deployments

if TYPE_CHECKING:
    from slc_ops.settings.deployments import Deployment

NOT_SHOWN = ("_TOKEN", "_SECRET", "_URL", "_URI")
"""Suffixes of variables that may contain secrets: error messages omit the value."""


class Variables(BaseModel):
    """A group of variables, named by the fields' aliases; an empty variable counts as unset."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)

    @classmethod
    def read(cls, environment: Mapping[str, str] = os.environ) -> Self:
        """Read the variables of this process, or of another environment.

        Raises :class:`~slc_ops.base.errors.SettingsError` with the variable, the value found and the rule.
        """
        try:
            return cls.model_validate({name: value for name, value in environment.items() if value})
        except ValidationError as error:
            raise SettingsError("; ".join(cls._complaint(found) for found in error.errors())) from None

    @classmethod
    def _complaint(cls, found: Any) -> str:
        name = str(found["loc"][0])
        shown = "" if name.endswith(NOT_SHOWN) else f", found {found['input']!r}"
        expected = next(f for f in cls.model_fields.values() if f.validation_alias == name)
        extra = expected.json_schema_extra
        rule = extra["must"] if isinstance(extra, dict) and "must" in extra else found["msg"]
        return f"{name} must be {rule}{shown}"


def variable(name: str, default: Any = None, about: str | None = None, must: str = "", **rules: Any) -> Any:
    """Return the field of a variable: ``about`` documents it, ``must`` is the rule for complaints."""
    extra: Any = {"must": must} if must else None
    return Field(default=default, validation_alias=name, description=about, json_schema_extra=extra, **rules)


class PlaceVariables(Variables):
    """Paths and addresses of the installation."""

    home: Path = variable(
        "SLC_OPS_HOME", Path("var"), "windows, refreshes, reports (and the embedded databases)"
    )
    deployments_file: Path = variable(
        "SLC_OPS_DEPLOYMENTS",
        Path("dags/deployments.yaml"),
        "the deployments file, or a folder of such files (`*.yaml`)",
    )
    tracking_uri: str | None = variable(
        "MLFLOW_TRACKING_URI",
        about="MLflow; with a server also `MLFLOW_TRACKING_USERNAME` and `MLFLOW_TRACKING_PASSWORD`; "
        "unset: `sqlite:///$SLC_OPS_HOME/mlflow/mlflow.db`",
    )
    registry_uri: str | None = variable(
        "MLFLOW_REGISTRY_URI",
        about="MLflow's registry of versions and aliases, if it is not that of the runs; "
        "unset: `MLFLOW_TRACKING_URI`",
    )
    ledger_url: str | None = variable(
        "SLC_OPS_LEDGER_URL",
        about="the ledger: `sqlite:///PATH` or `postgresql://…`; unset: `sqlite:///$SLC_OPS_HOME/ledger.db`",
    )
    artifact_root: str | None = variable(
        "SLC_OPS_ARTIFACT_ROOT",
        about="artifacts, if MLflow is a file and not a server; unset: `$SLC_OPS_HOME/mlflow/artifacts`",
    )


class TerminalVariables(Variables):
    """Variables of the command line."""

    actor: str | None = variable(
        "SLC_OPS_ACTOR", about="actor of promotions and rollbacks in the ledger; unset: the login name"
    )
    log: Literal["json"] | None = variable(
        "SLC_OPS_LOG",
        about="`json`: log lines of the command line as JSON on standard error",
        must="json or unset",
    )


class RowVariables(Variables):
    """Memory and cluster for processing rows."""

    memory_mb: int = variable(
        "SLC_OPS_MEMORY_MB",
        512,
        "megabytes of row data that a log may keep in memory; more goes to a temporary file",
        must="a whole number of megabytes",
        ge=0,
        le=1 << 30,
    )
    spark_master: str | None = variable(
        "SLC_OPS_SPARK_MASTER",
        about="the cluster of deployments with `engine: spark`, for example `spark://host:7077`",
    )
    spark_wait: float = variable(
        "SLC_OPS_SPARK_WAIT",
        60,
        "seconds to wait for an executor of the cluster before a refresh fails",
        must="seconds, at most a day",
        ge=0,
        le=86_400,
    )


class RegistryVariables(Variables):
    """Names of models in the registry, and the signing key of the ledger."""

    ledger_key: Path | None = variable(
        "SLC_OPS_LEDGER_KEY",
        about="a file with a private Ed25519 key (PEM) that signs every row of the ledger; "
        "unset: rows are chained and not signed",
    )
    model_schema: str | None = variable(
        "SLC_OPS_MODEL_SCHEMA",
        about="`catalog.schema` before model names, for registries with three-level names",
        must="a catalog and a schema, as in main.slc",
        pattern=r"^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$",
    )


class LinkVariables(Variables):
    """Addresses for links on pages."""

    mlflow_url: str | None = variable("SLC_OPS_MLFLOW_URL", about="address of MLflow for links in Airflow")
    tracking_uri: str | None = variable("MLFLOW_TRACKING_URI")
    airflow_url: str | None = variable(
        "AIRFLOW__API__BASE_URL", about="Airflow's address, for links in notifications from a terminal"
    )


class MetricsVariables(Variables):
    """Variables of ``slc-ops metrics --listen``."""

    host: str = variable("SLC_OPS_METRICS_HOST", "127.0.0.1", "`slc-ops metrics --listen`: interface")
    port: int = variable(
        "SLC_OPS_METRICS_PORT",
        9109,
        "`slc-ops metrics --listen`: port",
        must="a port, 0 to 65535",
        ge=0,
        le=65_535,
    )
    token: SecretStr = variable(
        "SLC_OPS_METRICS_TOKEN", SecretStr(""), "`slc-ops metrics --listen`: bearer token"
    )


class ServeVariables(Variables):
    """Variables of ``slc-ops serve``."""

    token: SecretStr = variable(
        "SLC_OPS_SERVE_TOKEN", SecretStr(""), "`slc-ops serve`: bearer token; unset: none, on loopback only"
    )
    webhook_secret: SecretStr = variable(
        "SLC_OPS_SERVE_WEBHOOK_SECRET",
        SecretStr(""),
        "`slc-ops serve`: secret of MLflow's webhooks; unset: no such route",
    )


class ServiceVariables(Variables):
    """Variables of ``python -m slc_ops.production``."""

    env_file: Path = variable(
        "SLC_OPS_ENV_FILE", Path(".env"), "file that `python -m slc_ops.production service` reads"
    )
    compose_file: Path = variable(
        "SLC_OPS_COMPOSE_FILE",
        Path("docker-compose.yaml"),
        "compose file that `python -m slc_ops.production service` reads",
    )
    # No description: documented with the variables of the compose file.
    min_free_mb: int = variable("SLC_OPS_MIN_FREE_MB", 512, must="a whole number of megabytes", ge=0)


GROUPS: tuple[type[Variables], ...] = (
    PlaceVariables, RegistryVariables, TerminalVariables, RowVariables, LinkVariables, MetricsVariables,
    ServeVariables, ServiceVariables,
)  # fmt: skip
"""All groups that have documentation, in its order."""


@dataclass(frozen=True)
class Installation:
    """Paths and addresses of an installation. The default home is ``var/`` in the working directory."""

    home: Path
    deployments_file: Path
    tracking_uri: str
    ledger_url: str
    artifact_root: str
    sources: Path | None = None
    """Base of relative source paths; None means the home."""
    separate_registry: str | None = None
    """MLflow's registry, if it differs from the tracking server."""
    given: "Mapping[str, Deployment]" = field(default_factory=dict, compare=False)
    """Settings of deployments that override the file."""
    rehearsal: bool = False
    """A temporary home for a replay: no MLflow, no validation suite, no reports, no lineage."""

    @property
    def registry_uri(self) -> str:
        """Return the address of MLflow's registry of versions and aliases."""
        return self.separate_registry or self.tracking_uri

    @classmethod
    def from_environment(cls) -> "Installation":
        """Read :class:`PlaceVariables`, with defaults derived from the home."""
        found = PlaceVariables.read()
        home = found.home.absolute()
        return cls(
            home=home,
            deployments_file=found.deployments_file.absolute(),
            tracking_uri=found.tracking_uri or f"sqlite:///{home}/mlflow/mlflow.db",
            ledger_url=found.ledger_url or f"sqlite:///{home}/ledger.db",
            artifact_root=found.artifact_root or (home / "mlflow" / "artifacts").as_uri(),
            separate_registry=found.registry_uri,
        )

    def windows(self, deployment: str) -> Path:
        """Return the directory of a deployment's immutable, validated windows."""
        return self.home / "windows" / deployment

    def refreshes(self, deployment: str) -> Path:
        """Return the directory of a deployment's refresh results."""
        return self.home / "refreshes" / deployment

    def replays(self, deployment: str) -> Path:
        """Return the directory of the replays started in Airflow, one subdirectory per span."""
        return self.home / "replays" / deployment

    @cached_property
    def deployments(self) -> "dict[str, Deployment]":
        """Return all deployments of the file; raise for the first invalid entry."""
        return load_deployments(self.deployments_file)

    def with_settings(self, name: str, settings: "Deployment | None") -> "Installation":
        """Return a copy that overrides the settings of a deployment; the same object for None."""
        return self if settings is None else replace(self, given={**self.given, name: settings})

    def deployment(self, name: str) -> "Deployment":
        """Return one deployment by name; invalid entries of other names are ignored."""
        if name in self.given:
            return self.given[name]
        good, broken = read_deployments(self.deployments_file)
        for entry in broken:
            if entry.name == name:
                raise SettingsError(str(entry))
        if name not in good:
            known = ", ".join(sorted(good)) or "none"
            raise SettingsError(f"no deployment {name!r} in {self.deployments_file}; it has: {known}")
        return good[name]

    def zone_of(self, name: str) -> str:
        """Return the time zone of a deployment's windows; UTC if the file has no valid entry."""
        try:
            return self.deployment(name).window.zone
        except SettingsError:
            return "UTC"


def registered_model(deployment: str) -> str:
    """Return ``slc-<deployment>``, after ``catalog.schema.`` where ``SLC_OPS_MODEL_SCHEMA`` is set."""
    return model_name(deployment, RegistryVariables.read().model_schema)
