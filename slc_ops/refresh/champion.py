"""The champion to compare a refresh with: read once, and stored with its comparison."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slc_ops.base.digests import digest_file, digest_json
from slc_ops.base.errors import SlcError
from slc_ops.base.window import Window
from slc_ops.refresh.plan import Plan
from slc_ops.refresh.versions import registered_by
from slc_ops.settings.environment import Installation

if TYPE_CHECKING:
    from slc_ops.evidence.folds import FoldPlan
    from slc_ops.evidence.results import Champion
    from slc_ops.parameters.parameter_set import ParameterSet
    from slc_ops.rows.engine import Engine


@dataclass(frozen=True)
class ChampionReference:
    """A champion to compare with, identified by ``version`` and ``digest``; ``read`` loads its parameters.

    ``since`` is the window whose refresh made its method serve; None for a parameter set on disk.
    """

    version: str | None
    digest: str
    method: str
    window: Window | None
    read: "Callable[[], ParameterSet]"
    since: Window | None = None

    def score(self, folds: "FoldPlan", scores: Path, engine: "Engine") -> "Champion":
        """Score it on the newest rows; an unreadable champion is reported, not skipped."""
        from slc_ops.evidence.backtest import compare_champion
        from slc_ops.evidence.results import Champion

        try:
            parameters = self.read()
        except SlcError as error:
            reason = f"version {self.version}: {error}"
            return Champion("unreadable", reason, self.version, self.method, self.digest, since=self.since)
        found = compare_champion(
            folds, parameters, scores, version=self.version, digest=self.digest, engine=engine
        )
        return replace(found, since=self.since)


def current_champion(installation: Installation, deployment: str) -> ChampionReference | None:
    """Return the champion by the ledger, or None."""
    from slc_ops.registry import Registry
    from slc_ops.registry.overview import glance

    registry = Registry.open(installation)
    found = glance(registry.ledger, deployment)
    version, since = found.champion, found.since
    if version is None or since is None:
        return None
    return ChampionReference(
        str(version.number),
        version.key,
        version.method,
        version.window,
        lambda: registry.parameters(version),
        since,
    )


def taken_back_from(installation: Installation, plan: Plan) -> dict[str, str]:
    """Return method → sentence for methods that a person removed and no rule may promote with this window."""
    from slc_ops.registry import Registry
    from slc_ops.registry.rules import taken_back

    found = taken_back(Registry.open(installation).history(plan.deployment))
    return {each.method: each.sentence for each in found if each.waits(plan.window)}


def champion_in(directory: Path) -> ChampionReference:
    """Return a parameter set on disk as the champion; an unreadable one raises here."""
    from slc_ops.parameters.parameter_set import ParameterSet

    parameters = ParameterSet.read(directory)
    digest = digest_json([digest_file(path) for path in sorted(directory.iterdir())])
    return ChampionReference(
        None, digest, parameters.method, parameters.provenance.window, lambda: parameters
    )


def still_holds(
    plan: Plan, evidence: dict[str, Any], reference: ChampionReference | None, taken: dict[str, str]
) -> bool:
    """Return True if a finished backtest matches the current champion and the methods that people removed.

    It also holds if the current champion came from this refresh, or has a later window: then it cannot be
    compared on these rows, and the original comparison remains.
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
