"""The registry: MLflow stores the versions, the ledger is the authority on the champion.

>>> from slc_ops.settings.environment import Installation                              # doctest: +SKIP
>>> registry = Registry.open(Installation.from_environment())              # doctest: +SKIP
>>> version = registry.publish(publication)                          # doctest: +SKIP
>>> registry.promote("demo", version.number, actor="ann", reason="better on every fold")  # doctest: +SKIP
"""

import logging
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slc_ops.base.addresses import without_secrets
from slc_ops.base.errors import PromotionConflict, RegistryError
from slc_ops.base.mlflow_client import connect
from slc_ops.base.names import model_name
from slc_ops.parameters import IN_MODEL
from slc_ops.registry.aliases import Gap, project
from slc_ops.registry.ledger import Head, Ledger, check_living
from slc_ops.registry.overview import glance
from slc_ops.registry.publication import (
    PROMOTION,
    RETIREMENT,
    ROLLBACK,
    ChampionChange,
    Publication,
    Version,
)
from slc_ops.registry.rules import (
    Against,
    changed_by,
    check_against,
    check_promotion,
    check_retirement,
    check_rollback,
    check_signed,
    with_author,
)
from slc_ops.registry.tracking import typed
from slc_ops.settings.environment import Installation, registered_model

if TYPE_CHECKING:
    from mlflow import MlflowClient

    from slc_ops.parameters.parameter_set import ParameterSet
    from slc_ops.registry.audit import Finding

_log = logging.getLogger(__name__)
_PUBLISHERS_WAIT = 120.0


class Registry:
    """Publish, promote, roll back, retire, verify; safe with concurrent processes."""

    def __init__(self, installation: Installation, ledger: Ledger, *, create: bool = True) -> None:
        self.installation = installation
        self.ledger = ledger
        self._create = create

    @classmethod
    def open(cls, installation: Installation, *, create: bool = True) -> "Registry":
        """Open the installation's ledger, created on first use; MLflow is connected when it is needed.

        With ``create=False`` nothing is created, and a missing ledger reads as empty.
        """
        ledger = Ledger(installation.ledger_url, create=create, zone_of=cache(installation.zone_of))
        kind = RehearsalRegistry if installation.rehearsal else cls
        return kind(installation, ledger, create=create)

    @cached_property
    def client(self) -> "MlflowClient":
        """MLflow's client, connected on first use: reading the ledger does not need it."""
        uri = self.installation.tracking_uri
        with typed(uri):
            return connect(uri, create=self._create, registry_uri=self.installation.registry_uri)

    @contextmanager
    def _mlflow(self) -> "Iterator[MlflowClient]":
        """Use MLflow's client; its errors become :class:`RegistryError`."""
        client = self.client
        with typed(self.installation.tracking_uri):
            yield client

    # --- moves ----------------------------------------------------------------------------------------

    def publish(self, publication: Publication) -> Version:
        """Return the one version of the publication's key; the first call creates its run and version.

        Raises:
            ParameterSetError: The parameter set is damaged or of another method.
            RegistryError: MLflow or the ledger refused, or another publisher holds the lock too long.
        """
        from slc_ops.registry.publish import publish

        name = publication.deployment
        with self._mlflow() as client, self._publishing(name):
            version = self.ledger.published(publication.key)
            if version is not None:
                self._project(name, expected=False)
                return version
            version = publish(client, self.installation, publication)
            self.ledger.record(version, publication.refers)
            self._project(name, expected=True)
            self._clean_quietly(name)
        return version

    def restate(self, version: Version, publication: Publication) -> None:
        """Write the verdict of evidence that was recomputed against another champion to MLflow.

        The parameters do not depend on it and stay. The ledger's row keeps the verdict at publication; a
        promotion is decided by the evidence that it carries.
        """
        from slc_ops.registry.publish import restate

        with self._mlflow() as client, self._publishing(publication.deployment):
            restate(client, version, publication)

    def _publishing(self, deployment: str) -> AbstractContextManager[None]:
        """Lock a deployment for publishing: the second publisher finds the version of the first."""
        return self.ledger.database.lock(f"publish-{deployment}", seconds=_PUBLISHERS_WAIT)

    def promote(
        self,
        deployment: str,
        version: int,
        *,
        actor: str,
        reason: str,
        override: str | None = None,
        evidence: Mapping[str, Any] | None = None,
        automatic: bool = False,
        against: Against | None = None,
        request: str | None = None,
        kind: str = PROMOTION,
    ) -> Version:
        """Make a version the champion, by the rules; promoting the champion again changes nothing.

        ``override`` is the reason for promoting a rejected version. A schedule (``automatic``) names the
        champion of its comparison in ``against``. A repeated ``request``, such as an Airflow run, changes
        nothing. Raises :class:`PromotionRefused` if a rule forbids the promotion, and
        :class:`PromotionConflict` if the champion is not ``against`` any more.
        """
        check_signed(actor, reason)
        head, line = self.ledger.head(deployment), self.ledger.line(deployment)
        candidate = self.ledger.version(deployment, version)
        moves = head.champion != candidate.number and changed_by(line, request) is None
        if moves:
            champion = self._version_or_none(deployment, head.champion)
            check_against(against, champion, line, deployment, automatic=automatic)
            verdict = (evidence or {}).get("verdict", candidate.verdict)
            check_promotion(
                candidate, champion, line, override=override, automatic=automatic, verdict=verdict
            )
            entry = with_author(evidence, request, person=not automatic, method=candidate.method)
            self._advance(
                head, candidate, kind=kind, actor=actor, reason=reason, override=override, evidence=entry
            )
        self._project(deployment, expected=moves)
        return candidate

    def rollback(
        self,
        deployment: str,
        to: int | None = None,
        *,
        actor: str,
        reason: str,
        request: str | None = None,
        windows: int | None = None,
        exclude_window: bool = False,
    ) -> Version:
        """Make the previous champion the champion again, or the earlier one with the number ``to``.

        Two calls go back twice, unless they have the same ``request``. ``windows`` is the number of windows
        until a rule may promote the removed method again; None: only a person may. ``exclude_window`` leaves
        the removed version's window out of later fits. Raises :class:`PromotionRefused` without an earlier
        champion, or if ``to`` never was one.
        """
        check_signed(actor, reason)
        head, line = self.ledger.head(deployment), self.ledger.line(deployment)
        done = changed_by(line, request)
        if done is not None and done.to_version is not None:
            target = done.to_version
        else:
            target = check_rollback(deployment, line, to)
        version = self.ledger.version(deployment, target)
        moves = done is None and head.champion != target
        if moves:
            champion = self._version_or_none(deployment, head.champion)
            entry = with_author(
                None, request, person=True, method=version.method, taken=champion, windows=windows,
                exclude=exclude_window,
            )  # fmt: skip
            self._advance(head, version, kind=ROLLBACK, actor=actor, reason=reason, evidence=entry)
        self._project(deployment, expected=moves)
        return version

    def retire(
        self,
        deployment: str,
        *,
        actor: str,
        reason: str,
        evidence: Mapping[str, Any] | None = None,
        automatic: bool = False,
        against: Against | None = None,
        request: str | None = None,
        windows: int | None = None,
    ) -> ChampionChange:
        """Retire the champion and return the ledger's row; then the frozen model serves.

        Retiring again changes nothing and returns the retirement in force. The arguments are those of
        :meth:`promote` and :meth:`rollback`. Raises :class:`PromotionRefused` if there never was a champion.
        """
        check_signed(actor, reason)
        head, line = self.ledger.head(deployment), self.ledger.line(deployment)
        champion = self._version_or_none(deployment, head.champion)
        done = changed_by(line, request) or check_retirement(deployment, champion, line)
        if done is None:
            check_against(against, champion, line, deployment, automatic=automatic)
            entry = with_author(
                evidence, request, person=not automatic, method=None, taken=champion, windows=windows
            )
            done = self._advance(head, None, kind=RETIREMENT, actor=actor, reason=reason, evidence=entry)
        self._project(deployment, expected=True)
        return done

    def _advance(self, head: Head, version: Version | None, **entry: Any) -> ChampionChange:
        """Check that the version can be served, then compare and set; return the ledger's row."""
        if version is not None:
            self.parameters(version)
        try:
            return self.ledger.advance(head, version, **entry)
        except PromotionConflict:
            last, wanted = self.ledger.line(head.deployment)[-1], None if version is None else version.number
            if last.to_version != wanted or (version is None and last.from_version != head.champion):
                raise  # otherwise the other process made the same change
            return last

    def _project(self, deployment: str, *, expected: bool) -> list[Gap]:
        """Set the aliases to the ledger's state; log a gap that no expected move explains."""
        with self._mlflow() as client:
            closed = project(client, self.ledger, deployment)
        if closed and not expected:
            for gap in closed:
                _log.warning("repaired an alias after an interrupted, concurrent or manual change: %s", gap)
        return closed

    # --- queries --------------------------------------------------------------------------------------

    def champion(self, deployment: str) -> Version | None:
        """Return the champion by the ledger, or None."""
        return self._version_or_none(deployment, self.ledger.head(deployment).champion)

    def challenger(self, deployment: str) -> Version | None:
        """Return the newest pending version by the ledger, or None."""
        return self._version_or_none(deployment, self.ledger.head(deployment).challenger)

    def _version_or_none(self, deployment: str, number: int | None) -> Version | None:
        return None if number is None else self.ledger.version(deployment, number)

    def history(self, deployment: str) -> list[ChampionChange]:
        """Return every change of the champion, oldest first."""
        model_name(deployment)
        return self.ledger.line(deployment)

    def parameters(self, version: Version) -> "ParameterSet":
        """Download a version's parameter set, verify schema, digests and golden vectors, and return it.

        A deleted version raises :class:`RegistryError`, a damaged set ``ParameterSetError``.
        """
        from slc_ops.parameters.parameter_set import ParameterSet

        with tempfile.TemporaryDirectory(prefix="slc-parameters-") as scratch:
            return ParameterSet.read(self.stored(version, Path(scratch)))

    def stored(self, version: Version, into: Path) -> Path:
        """Download the files of a version's parameter set into ``into``, unverified; return their path."""
        from slc_ops.registry.logged_model import download

        check_living(version)
        name = registered_model(version.deployment)
        try:
            with self._mlflow() as client:
                source = client.get_model_version(name, str(version.number)).source
                return download(client, source, IN_MODEL, into)
        except RegistryError as error:
            raise RegistryError(
                f"no parameter set of version {version.number} of {version.deployment} could be fetched: "
                f"{error}"
            ) from error

    def status(self, expected: Iterable[str] = ()) -> dict[str, Any]:
        """Return champion, challenger and alias findings of every deployment, as JSON.

        ``expected`` deployments appear even without a publication.
        """
        published = self.ledger.deployments()
        answer: dict[str, Any] = {
            "tracking_uri": without_secrets(self.installation.tracking_uri),
            "ledger_url": self.ledger.database.shown,
            "deployments": {},
        }
        for name in sorted({*published, *expected}):
            found = glance(self.ledger, name)
            champion, challenger, retired = found.champion, found.challenger, found.retired
            answer["deployments"][name] = {
                "champion": None if champion is None else champion.as_dict(),
                "serves": found.serves,
                "retired": None if retired is None else retired.as_dict(),
                "taken_back": [each.sentence for each in found.taken_back],
                "challenger": None if challenger is None else challenger.as_dict(),
                "findings": self._alias_findings(name) if name in published else [],
            }
        return answer

    def _alias_findings(self, deployment: str) -> list[dict[str, Any]]:
        """Return the alias findings for ``status``; an unreachable MLflow is a finding, not an error."""
        from slc_ops.registry.audit import Finding, alias_findings

        try:
            with self._mlflow() as client:
                found = alias_findings(client, self.ledger.head(deployment), self.ledger.line(deployment))
        except RegistryError as error:
            found = [Finding(deployment, "unreachable", str(error))]
        return [finding.as_dict() for finding in found]

    def verify(self, deployment: str, repair: bool = False) -> "list[Finding]":
        """Return every difference between the ledger and MLflow.

        With ``repair`` the deployment's row is rebuilt from the champion history if necessary, and the
        aliases are set to it; the result contains the repairs (``repaired``) and the remaining differences.
        If moves are lost, nothing changes: only a backup has them.
        """
        from slc_ops.registry.audit import Finding, audit, line_findings

        repaired: list[str] = []
        if repair:
            found = line_findings(deployment, self.ledger.row(deployment), self.ledger.line(deployment))
            if all(each.repairable for each in found):
                if found:
                    self.ledger.repair(deployment)
                repaired = [each.sentence for each in found]
                repaired += [str(gap) for gap in self._project(deployment, expected=True)]
        with self._mlflow():
            left = audit(self, deployment)
        return [Finding(deployment, "repaired", sentence) for sentence in repaired] + left

    # --- housekeeping ---------------------------------------------------------------------------------

    def _clean_quietly(self, deployment: str) -> None:
        """Delete old versions that were never champion; a failure must not fail the publication."""
        from slc_ops.registry.logged_model import clean

        try:
            with self._mlflow() as client:
                clean(client, self.ledger, deployment)
        except RegistryError as error:
            _log.warning("old versions of %s were not cleaned: %s", deployment, error)


class RehearsalRegistry(Registry):
    """The registry of a replay: a temporary ledger with its rules, without MLflow.

    Parameters stay where the refresh wrote them.
    """

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
