"""The champion that a refresh is compared with: read once, and kept with everything that is said about it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slc_ops.base.errors import SlcError
from slc_ops.base.files import digest_file, digest_json
from slc_ops.base.window import Window
from slc_ops.refresh.plan import Plan
from slc_ops.refresh.versions import registered_by
from slc_ops.settings.deployments import Installation

if TYPE_CHECKING:
    from slc_ops.evidence.folds import FoldPlan
    from slc_ops.evidence.results import Champion
    from slc_ops.parameters.parameter_set import ParameterSet
    from slc_ops.rows.engine import Engine


@dataclass(frozen=True)
class ChampionReference:
    """A champion to compare with: ``version`` and ``digest`` say which, ``read`` gets its parameters."""

    version: str | None
    digest: str
    method: str
    window: Window | None
    read: "Callable[[], ParameterSet]"

    def score(self, folds: "FoldPlan", scores: Path, engine: "Engine") -> "Champion":
        """Score it on the newest rows; a champion that cannot be read is said, not skipped."""
        from slc_ops.evidence.backtest import Champion, compare_champion

        try:
            parameters = self.read()
        except SlcError as error:
            reason = f"version {self.version}: {error}"
            return Champion("unreadable", reason, self.version, self.method, self.digest)
        return compare_champion(
            folds, parameters, scores, version=self.version, digest=self.digest, engine=engine
        )


def current_champion(installation: Installation, deployment: str) -> ChampionReference | None:
    """The champion by the ledger; None where there is none."""
    from slc_ops.registry import Registry

    registry = Registry.open(installation)
    version = registry.champion(deployment)
    if version is None:
        return None

    def read() -> "ParameterSet":
        from tempfile import TemporaryDirectory

        from slc_ops.parameters.parameter_set import ParameterSet

        with TemporaryDirectory(prefix="slc-champion-") as scratch:
            return ParameterSet.read(registry.parameters(version, Path(scratch)))

    return ChampionReference(str(version.number), version.key, version.method, version.window, read)


def taken_back_from(installation: Installation, plan: Plan) -> dict[str, str]:
    """Methods that a person took back and that may not return with this window by rule, in words."""
    from slc_ops.registry import Registry
    from slc_ops.registry.rules import taken_back

    found = taken_back(Registry.open(installation).history(plan.deployment))
    return {each.method: each.sentence for each in found if each.waits(plan.window)}


def champion_in(directory: Path) -> ChampionReference:
    """A parameter set on disk in the champion's place; one that cannot be read is refused here."""
    from slc_ops.parameters.parameter_set import ParameterSet

    parameters = ParameterSet.read(directory)
    digest = digest_json([digest_file(path) for path in sorted(directory.iterdir())])
    return ChampionReference(
        None, digest, parameters.method, parameters.provenance.window, lambda: parameters
    )


def still_holds(
    plan: Plan, evidence: dict[str, Any], reference: ChampionReference | None, taken: dict[str, str]
) -> bool:
    """Whether a finished backtest speaks about today's champion, and of what people took back.

    It also holds where today's champion came out of this very refresh, or is of a later window: then it
    cannot be compared on these rows, and the comparison that was made in its time stays on record.
    """
    compared = evidence["champion"]
    if compared.get("taken_back", {}) != taken:
        return False
    if reference is None:
        return bool(compared["status"] == "absent")
    if (compared["version"], compared.get("digest")) == (reference.version, reference.digest):
        return True
    if reference.window is not None and reference.window.end > plan.window.end:
        return True
    return reference.version in [str(each.number) for each in registered_by(plan.files)]
