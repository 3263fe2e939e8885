"""Compare MLflow with the ledger: each finding is a sentence, with a flag if it can be repaired."""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slc_ops.base.errors import ParameterSetError, RegistryError
from slc_ops.base.names import model_name
from slc_ops.intake.erased import Erased
from slc_ops.registry.aliases import gaps, of_another_ledger
from slc_ops.registry.chain import Keys, check_chain, entry_of_version
from slc_ops.registry.erasures import recorded_erasures, resealed_digest
from slc_ops.registry.ledger import Head, Ledger
from slc_ops.registry.publication import KEY_TAG, ChampionChange, Version, digest_of_set
from slc_ops.registry.rules import line_breaks
from slc_ops.settings.environment import registered_model

if TYPE_CHECKING:
    from mlflow import MlflowClient

    from slc_ops.registry.registry import Registry


@dataclass(frozen=True)
class Finding:
    """A difference between the ledger and MLflow, or damage within the ledger."""

    deployment: str
    code: str
    """``alias``, ``chain``, ``line``, ``champion``, ``stray_version``, ``interrupted`` or ``erased``."""
    sentence: str
    repairable: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form of ``slc-ops verify``."""
        return {"code": self.code, "sentence": self.sentence, "repairable": self.repairable}

    def __str__(self) -> str:
        return f"{self.deployment}: {self.sentence}"


def alias_findings(client: "MlflowClient", head: Head, line: list[ChampionChange]) -> list[Finding]:
    """Find aliases that were moved by hand, or not moved because a process died."""
    findings = []
    for gap in gaps(client, head):
        foreign = of_another_ledger(client, gap, line)
        remedy = (
            "; another ledger made it champion, so it is left alone: check SLC_OPS_LEDGER_URL, restore the "
            "ledger from its backup, or promote a version of this ledger"
        )
        findings.append(Finding(head.deployment, "alias", f"{gap}{remedy * foreign}", repairable=not foreign))
    return findings


def audit(registry: "Registry", deployment: str) -> list[Finding]:
    """Return all findings of a deployment."""
    client, ledger = registry.client, registry.ledger
    head, line = ledger.head(deployment), ledger.line(deployment)
    versions = ledger.versions(deployment)
    findings = line_findings(deployment, ledger.row(deployment), line)
    findings += chain_findings(ledger, deployment)
    findings += alias_findings(client, head, line)
    findings += erasure_findings(ledger, deployment, registry.installation.home)
    findings += _strays(client, deployment, versions)
    findings += _interrupted(client, deployment, versions)
    if head.champion is not None:
        with ledger.database.reading() as connection:
            published = entry_of_version(connection, deployment, head.champion).get("refers", {})
        entered = resealed_digest(ledger, deployment, head.champion) or published.get("parameters")
        findings += _champion_findings(registry, ledger.version(deployment, head.champion), entered)
    return findings


def chain_findings(ledger: Ledger, deployment: str) -> list[Finding]:
    """Find ledger rows that were changed, removed or inserted after they were entered."""
    found = check_chain(ledger, deployment, Keys.read())
    return [Finding(deployment, "chain", f"{problem}; {_TOUCHED}") for problem in found.problems]


def erasure_findings(ledger: Ledger, deployment: str, home: Path) -> list[Finding]:
    """Find users of erasure receipts who are missing from the list; extractions exclude rows by that list."""
    erased = {user for receipt in recorded_erasures(ledger, deployment) for user in receipt.details["users"]}
    listed = Erased(home, deployment)
    lost = len(erased - listed.users)
    if not lost:
        return []
    sentence = (
        f"{lost} of {len(erased)} erased users are not on the list {listed.path} any more, so the next "
        "extraction would restore their rows: restore the list from its backup, or erase these users again"
    )
    return [Finding(deployment, "erased", sentence)]


def line_findings(deployment: str, row: Head | None, line: list[ChampionChange]) -> list[Finding]:
    """Check the champion history: revisions 1, 2, 3 …, each from the previous champion, the row at its end.

    A row can be rebuilt from the history; lost moves cannot be repaired.
    """
    problems = line_breaks(line)
    findings = [Finding(deployment, "line", f"{problem}; {_RESTORE}") for problem in problems]
    end = (line[-1].to_version if line else None, len(line))
    if row is None and line:
        sentence = f"the deployment's row is lost; the line ends with version {end[0]} after {end[1]} moves"
        findings.append(Finding(deployment, "line", sentence, repairable=not problems))
    elif row is not None and (row.champion, row.revision) != end:
        lost = row.revision > len(line)
        findings.append(
            Finding(
                deployment,
                "line",
                f"the deployment's row says version {row.champion} after {row.revision} moves, the line ends "
                f"with version {end[0]} after {end[1]}" + (f"; {_RESTORE}" if lost else ""),
                repairable=not (problems or lost),
            )
        )
    return findings


_TOUCHED = "another program wrote to the ledger: compare it with its backup"
_RESTORE = (
    "moves are lost, so nothing is repaired and no alias is touched: restore the ledger from its backup"
)


def _champion_findings(registry: "Registry", version: Version, entered: str | None) -> list[Finding]:
    """Download the champion's set, verify it and compare its digest with ``entered`` (None: not compared)."""
    from slc_ops.parameters.parameter_set import ParameterSet

    try:
        with tempfile.TemporaryDirectory(prefix="slc-verify-") as scratch:
            stored = registry.stored(version, Path(scratch))
            ParameterSet.read(stored)
            if entered not in (None, digest_of_set(stored)):
                raise ParameterSetError("MLflow holds another parameter set than the one that was published")
    except (ParameterSetError, RegistryError) as error:
        sentence = f"the champion, version {version.number}, cannot be served: {error}; roll back"
        return [Finding(version.deployment, "champion", sentence)]
    return []


def _strays(client: "MlflowClient", deployment: str, versions: list[Version]) -> list[Finding]:
    known = {version.number for version in versions}
    found = client.search_model_versions(f"name = '{registered_model(deployment)}'")
    return [
        Finding(
            deployment,
            "stray_version",
            f"version {stray} is in MLflow but not in the ledger, so it cannot be promoted: made by hand, or "
            "by a refresh that was interrupted (run that refresh again)",
        )
        for stray in sorted(int(version.version) for version in found)
        if stray not in known
    ]


def _interrupted(client: "MlflowClient", deployment: str, versions: list[Version]) -> list[Finding]:
    experiment = client.get_experiment_by_name(model_name(deployment))
    if experiment is None:
        return []
    known = {version.run_id for version in versions}
    runs = client.search_runs([experiment.experiment_id], "attributes.status = 'RUNNING'")
    return [
        Finding(
            deployment,
            "interrupted",
            f"the run {run.info.run_id} ({run.info.run_name}) is not finished: a refresh is at work or was "
            "interrupted (the same refresh completes it)",
        )
        for run in runs
        if run.info.run_id not in known and KEY_TAG in run.data.tags
    ]
