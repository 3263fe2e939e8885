"""Value objects of the registry: the publication it takes, and the versions and changes it returns."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from slc_ops.base.digests import canonical_json, digest_file, digest_json
from slc_ops.base.errors import RegistryError
from slc_ops.base.names import model_name
from slc_ops.base.window import Window

CHAMPION = "champion"
CHALLENGER = "challenger"
KEY_TAG = "idempotency_key"
VERDICT = "verdict.json"
"""The verdict among the artifacts of a run."""
TRAINING, EVALUATION = "training", "evaluation"
VERDICTS = ("promote", "hold", "reject")
PROMOTION, RENEWAL, ROLLBACK, RETIREMENT = "promotion", "renewal", "rollback", "retirement"
CHANGES = {
    PROMOTION: "promoted version {}",
    RENEWAL: "renewed the parameters by version {}",
    ROLLBACK: "rolled back to version {}",
    RETIREMENT: "retired the champion",
}
"""Kind of a champion change → description."""


@dataclass(frozen=True)
class Publication:
    """A fitted parameter set with its evidence, ready to become one version.

    Publications with the same :attr:`key` are the same: the second call returns the first one's version.
    """

    deployment: str
    window: Window
    method: str
    parameters: Path
    """Directory of the parameter set (params.json, a table for each effect, golden.json)."""
    verdict: Mapping[str, Any]
    """``{"verdict": "promote" | "hold" | "reject", "reasons": [...], "sentence": ...}``."""
    metrics: Mapping[str, Any]
    """Metrics by name, nested or flat; an undefined metric is ``None``."""
    input_digest: str
    config_digest: str
    code_version: str
    data: Mapping[str, Mapping[str, str]]
    """``training`` and ``evaluation`` → windows and digests."""
    artifacts: Mapping[str, Path] = field(default_factory=dict)
    """Name in the run → a file or directory: report, figures, detectability, validation."""

    def __post_init__(self) -> None:
        model_name(self.deployment)
        verdict = self.verdict.get("verdict")
        if verdict not in VERDICTS:
            raise RegistryError(f"a publication needs a verdict of {', '.join(VERDICTS)}; found {verdict!r}")
        try:
            canonical_json([dict(self.verdict), dict(self.metrics)])
        except (TypeError, ValueError) as error:
            raise RegistryError(
                f"a verdict and its metrics must be JSON without NaN or infinity (null if undefined): {error}"
            ) from None

    @property
    def params(self) -> dict[str, str]:
        """The origin of the parameters, as MLflow's run and model record it."""
        return {
            "deployment": self.deployment,
            "window": str(self.window),
            "method": self.method,
            "input_digest": self.input_digest,
            "config_digest": self.config_digest,
            "code_version": self.code_version,
        }

    @property
    def refers(self) -> dict[str, Any]:
        """Digests of its inputs, verdict and parameters, for the ledger's chain."""
        return {
            "windows": {context: dict(windows) for context, windows in self.data.items()},
            "input": self.input_digest,
            "config": self.config_digest,
            "code": self.code_version,
            "verdict": digest_json(dict(self.verdict)),
            "parameters": digest_of_set(self.parameters),
        }

    @cached_property
    def key(self) -> str:
        """The idempotency key: deployment, window, method, input, configuration and code."""
        return digest_json(
            [
                self.deployment,
                self.window.as_dict(),
                self.method,
                self.input_digest,
                self.config_digest,
                self.code_version,
            ]
        )

    def version(self, number: int, run_id: str) -> "Version":
        """Return the version that this publication becomes now."""
        return Version(
            deployment=self.deployment,
            number=number,
            method=self.method,
            window=self.window,
            verdict=self.verdict["verdict"],
            metrics=self.metrics,
            run_id=run_id,
            key=self.key,
            published_at=datetime.now(UTC),
        )


def digest_of_set(directory: Path) -> str:
    """Return one digest of a parameter set's files."""
    return digest_json({path.name: digest_file(path) for path in sorted(directory.iterdir())})


@dataclass(frozen=True)
class Version:
    """One version of ``slc-<deployment>`` in the ledger."""

    deployment: str
    number: int
    method: str
    window: Window
    verdict: str
    metrics: Mapping[str, Any]
    run_id: str
    key: str
    published_at: datetime
    retired_at: datetime | None = None
    """The time when retention deleted its parameters; the row remains."""

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form of ``slc-ops status``."""
        return {
            "version": self.number,
            "method": self.method,
            "window": self.window.as_dict(),
            "verdict": self.verdict,
            "metrics": dict(self.metrics),
            "run_id": self.run_id,
        }


@dataclass(frozen=True)
class ChampionChange:
    """One row of the ledger: the champion of a deployment changed."""

    deployment: str
    revision: int
    """1, 2, 3 … without a gap within a deployment."""
    kind: str
    """One of :data:`CHANGES`."""
    from_version: int | None
    to_version: int | None
    """None: the champion was retired, the frozen model serves."""
    window: Window
    """The window of the new champion, or of the retired one."""
    actor: str
    reason: str
    override: str | None
    evidence: Mapping[str, Any]
    at: datetime

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form of ``slc-ops history``."""
        values = {name: value for name, value in vars(self).items() if name != "deployment"}
        return values | {"window": self.window.as_dict(), "at": self.at.isoformat()}

    def __str__(self) -> str:
        done = CHANGES[self.kind].format(self.to_version)
        return f"{self.actor} {done} at {self.at:%Y-%m-%d %H:%M:%S} UTC ({self.reason})"
