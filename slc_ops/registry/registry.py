"""The registry: MLflow keeps the versions, the ledger keeps the truth about who is champion.

>>> from slc_ops.settings.deployments import Installation                              # doctest: +SKIP
>>> registry = Registry.open(Installation.from_environment())              # doctest: +SKIP
>>> version = registry.publish(publication)                          # doctest: +SKIP
>>> registry.promote("demo", version.number, actor="ann", reason="better on every fold")  # doctest: +SKIP
"""

import logging
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slc_ops.base.addresses import without_secrets
from slc_ops.base.errors import PromotionConflict, RegistryError
from slc_ops.base.mlflow_client import connect
from slc_ops.base.names import model_name
from slc_ops.registry.aliases import Gap, project
from slc_ops.registry.ledger import Head, Ledger, check_living
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
    act,
    changed_by,
    check_against,
    check_promotion,
    check_retirement,
    check_rollback,
    check_signed,
    taken_back,
)
from slc_ops.registry.serves import what_serves
from slc_ops.registry.tracking import typed
from slc_ops.settings.deployments import Installation

if TYPE_CHECKING:
    from mlflow import MlflowClient

    from slc_ops.registry.audit import Finding

_log = logging.getLogger(__name__)
_PUBLISHERS_WAIT = 120.0


class Registry:
    """Publish, promote, roll back, retire, verify. Safe to call again, safe to call from many processes."""

    def __init__(self, installation: Installation, ledger: Ledger, *, create: bool = True) -> None:
        self.installation = installation
        self.ledger = ledger
        self._create = create

    @classmethod
    def open(cls, installation: Installation, *, create: bool = True) -> "Registry":
        """Open the ledger of these installation, and make it on first use; MLflow is met when it is needed.

        Who only reads says ``create=False``: nothing is made, and where there is no ledger nothing is found.
        """
        ledger = Ledger(installation.ledger_url, create=create, zone_of=cache(installation.zone_of))
        if installation.rehearsal:
            from slc_ops.registry.rehearsal import RehearsalRegistry

            return RehearsalRegistry(installation, ledger, create=create)
        return cls(installation, ledger, create=create)

    @cached_property
    def client(self) -> "MlflowClient":
        """MLflow, connected on first use: reading the ledger does not need it."""
        uri = self.installation.tracking_uri
        with typed(uri):
            return connect(uri, create=self._create, registry_uri=self.installation.registry_uri)

    # --- moves ----------------------------------------------------------------------------------------

    def publish(self, publication: Publication) -> Version:
        """One run and one version for the publication's key, whoever asks and however often."""
        from slc_ops.registry.publish import publish

        name = publication.deployment
        client = self.client
        with typed(self.installation.tracking_uri), self._publishing(name):
            version = self.ledger.published(publication.key)
            if version is not None:
                self._project(name, expected=False)
                return version
            version = publish(client, self.installation, publication)
            self.ledger.record(version, publication.refers)
            self._project(name, expected=True)
            self._clean_quietly(name, publication.keep_versions)
        return version

    def restate(self, version: Version, publication: Publication) -> None:
        """Let MLflow show the verdict of evidence that was redone against another champion.

        The parameters stay, for they do not depend on it. So does the ledger's row, which says what was said
        at publication; what decides a promotion is the evidence that it carries.
        """
        from slc_ops.registry.publish import restate

        client = self.client
        with typed(self.installation.tracking_uri), self._publishing(publication.deployment):
            restate(client, version, publication)

    def _publishing(self, deployment: str) -> AbstractContextManager[None]:
        """One publisher per deployment at a time: whoever comes second finds what the first one made."""
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

        ``automatic`` says that a schedule asks, not a person. ``against`` is the champion that the decision
        was made against, or ``NO_CHAMPION``; if it is another one by now, the promotion is refused. A person
        may leave it out, a schedule may not. ``request`` names the request (a run of Airflow, say): repeated,
        it moves nothing a second time. ``kind`` is ``renewal`` for new parameters of the method that serves.
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
            said = act(person=not automatic, method=candidate.method)
            self._advance(head, candidate, kind, actor, reason, override, _with(evidence, request, said))
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
        """Make the champion before this one champion again, or an earlier one by number.

        The method that is taken back returns by rule after so many ``windows``, without them only by a
        person; ``exclude_window`` leaves the window of the version that is taken back out of later fits.
        Asked twice it goes back twice, unless both times carry the same ``request``.
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
            said = act(
                person=True,
                method=version.method,
                taken=self._version_or_none(deployment, head.champion),
                windows=windows,
                exclude=exclude_window,
            )
            self._advance(head, version, ROLLBACK, actor, reason, None, _with(None, request, said))
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
        against: int | None = None,
        request: str | None = None,
        windows: int | None = None,
    ) -> ChampionChange:
        """Let the frozen model serve again: the champion goes, and nobody comes. Answers the ledger's row.

        Retiring again changes nothing and answers the retirement that is in force. ``against`` is the
        champion that is meant; if it is another one by now, :class:`PromotionConflict` says so. A person may
        leave it out, a schedule (``automatic``) may not. :class:`PromotionRefused` where there never was a
        champion. :meth:`promote` leads out of it, :meth:`rollback` brings the retired champion back; after so
        many ``windows`` a rule may.
        """
        check_signed(actor, reason)
        head, line = self.ledger.head(deployment), self.ledger.line(deployment)
        champion = self._version_or_none(deployment, head.champion)
        done = changed_by(line, request) or check_retirement(deployment, champion, line)
        if done is None:
            check_against(against, champion, line, deployment, automatic=automatic)
            said = act(person=not automatic, method=None, taken=champion, windows=windows)
            done = self._retire(head, actor, reason, _with(evidence, request, said))
        self._project(deployment, expected=True)
        return done

    def _retire(self, head: Head, actor: str, reason: str, evidence: Mapping[str, Any]) -> ChampionChange:
        try:
            return self.ledger.advance(
                head, None, kind=RETIREMENT, actor=actor, reason=reason, evidence=evidence
            )
        except PromotionConflict:
            last = self.ledger.line(head.deployment)[-1]
            if last.kind != RETIREMENT or last.from_version != head.champion:
                raise  # otherwise the winner wanted what we wanted
            return last

    def _advance(
        self,
        head: Head,
        version: Version,
        kind: str,
        actor: str,
        reason: str,
        override: str | None,
        evidence: Mapping[str, Any] | None,
    ) -> None:
        """Check that the version can be served, then compare and set."""
        with tempfile.TemporaryDirectory(prefix="slc-check-") as scratch:
            self.parameters(version, Path(scratch))
        try:
            self.ledger.advance(
                head, version, kind=kind, actor=actor, reason=reason, override=override, evidence=evidence
            )
        except PromotionConflict:
            if self.ledger.head(version.deployment).champion != version.number:
                raise  # otherwise the winner wanted what we wanted

    def _project(self, deployment: str, *, expected: bool) -> list[Gap]:
        """Bring the aliases to the ledger's state; a gap that nobody's move explains is reported."""
        client = self.client
        with typed(self.installation.tracking_uri):
            closed = project(client, self.ledger, deployment)
        if closed and not expected:
            for gap in closed:
                _log.warning("closed a gap that an interrupted or concurrent move, or a hand, left: %s", gap)
        return closed

    # --- answers --------------------------------------------------------------------------------------

    def champion(self, deployment: str) -> Version | None:
        """The champion, by the ledger."""
        return self._version_or_none(deployment, self.ledger.head(deployment).champion)

    def challenger(self, deployment: str) -> Version | None:
        """The newest version that waits for a decision, by the ledger."""
        return self._version_or_none(deployment, self.ledger.head(deployment).challenger)

    def _version_or_none(self, deployment: str, number: int | None) -> Version | None:
        return None if number is None else self.ledger.version(deployment, number)

    def history(self, deployment: str) -> list[ChampionChange]:
        """The line of champions, oldest first."""
        model_name(deployment)
        return self.ledger.line(deployment)

    def parameters(self, version: Version, into: Path) -> Path:
        """Download a version's parameter set into a directory, and verify it; answers where it lies."""
        from slc_ops.registry.audit import fetch_parameters

        check_living(version)
        into.mkdir(parents=True, exist_ok=True)
        client = self.client
        with typed(self.installation.tracking_uri):
            return fetch_parameters(client, version, into)

    def status(self, expected: Iterable[str] = ()) -> dict[str, Any]:
        """Champion and challenger of every deployment, and whether the aliases agree, as JSON.

        Deployments that are ``expected`` appear even if they have not published anything yet.
        """
        published = self.ledger.deployments()
        answer: dict[str, Any] = {
            "tracking_uri": without_secrets(self.installation.tracking_uri),
            "ledger_url": self.ledger.database.shown,
            "deployments": {},
        }
        for name in sorted({*published, *expected}):
            champion, challenger = self.champion(name), self.challenger(name)
            line = self.ledger.line(name)
            answer["deployments"][name] = {
                "champion": None if champion is None else champion.as_dict(),
                "serves": what_serves(champion, line, self.ledger.versions(name)),
                "retired": line[-1].as_dict() if line and champion is None else None,
                "taken_back": [each.sentence for each in taken_back(line)],
                "challenger": None if challenger is None else challenger.as_dict(),
                "findings": self._alias_findings(name) if name in published else [],
            }
        return answer

    def _alias_findings(self, deployment: str) -> list[dict[str, Any]]:
        """What ``status`` says about the aliases; it answers from the ledger even when MLflow does not."""
        from slc_ops.registry.audit import Finding, alias_findings

        try:
            client = self.client
            with typed(self.installation.tracking_uri):
                found = alias_findings(client, self.ledger.head(deployment), self.ledger.line(deployment))
        except RegistryError as error:
            found = [Finding(deployment, "unreachable", str(error))]
        return [finding.as_dict() for finding in found]

    def verify(self, deployment: str, repair: bool = False) -> "list[Finding]":
        """Every difference between the ledger and MLflow.

        With ``repair`` the deployment's row is written again from the line of promotions where it has to be,
        and the aliases are set to it; the answer holds what was repaired (``repaired``) and what is left.
        Where the line has lost moves nothing is touched.
        """
        from slc_ops.registry.audit import Finding, audit, line_findings

        repaired: list[str] = []
        if repair:
            if (said := self.ledger.repair(deployment)) is not None:
                repaired.append(said)
            if not line_findings(deployment, self.ledger.row(deployment), self.ledger.line(deployment)):
                repaired += [str(gap) for gap in self._project(deployment, expected=True)]
        client = self.client
        with typed(self.installation.tracking_uri):
            left = audit(client, self.ledger, deployment, self.installation.home)
        return [Finding(deployment, "repaired", sentence) for sentence in repaired] + left

    # --- housekeeping ---------------------------------------------------------------------------------

    def _clean_quietly(self, deployment: str, keep: int) -> None:
        """Retire old versions that were never champion; a publication that succeeded must not fail by it."""
        from slc_ops.registry.retention import clean

        client = self.client
        try:
            with typed(self.installation.tracking_uri):
                clean(client, self.ledger, deployment, keep)
        except RegistryError as error:
            _log.warning("old versions of %s were not cleaned: %s", deployment, error)


def _with(evidence: Mapping[str, Any] | None, request: str | None, said: Mapping[str, Any]) -> dict[str, Any]:
    return dict(evidence or {}) | ({} if request is None else {"request": request}) | dict(said)
