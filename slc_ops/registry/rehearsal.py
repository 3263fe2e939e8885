"""The registry of a replay: the real ledger with its rules, without MLflow."""

from pathlib import Path

from slc_ops.registry.aliases import Gap
from slc_ops.registry.publication import Publication, Version
from slc_ops.registry.registry import Registry


class RehearsalRegistry(Registry):
    """A registry on a temporary ledger; parameters stay where the refresh wrote them."""

    def publish(self, publication: Publication) -> Version:
        """Enter a version with the next number."""
        known = self.ledger.published(publication.key)
        if known is not None:
            return known
        number = 1 + len(self.ledger.versions(publication.deployment))
        version = publication.version(number, run_id=str(publication.parameters))
        self.ledger.record(version, publication.refers)
        return version

    def restate(self, version: Version, publication: Publication) -> None:
        """Do nothing: a replay has no MLflow."""

    def stored(self, version: Version, into: Path) -> Path:
        """Return the path that the refresh wrote; ``into`` is not used."""
        return Path(version.run_id)

    def _project(self, deployment: str, *, expected: bool) -> list[Gap]:
        return []
