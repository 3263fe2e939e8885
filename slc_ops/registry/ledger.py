"""The ledger: all versions, and every change of the champion with its actor, time and reason.

A promotion reads the deployment's row, decides, and then compares and sets it in one transaction together
with the new row of the history, so the history cannot fork or have gaps.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, TypeVar

from sqlalchemy import Connection, insert, select, union, update

from slc_ops.base.errors import PromotionConflict, RegistryError
from slc_ops.registry.chain import MOVE, PUBLICATION, RETENTION, append, entry_of_version
from slc_ops.registry.database import Database
from slc_ops.registry.publication import ChampionChange, Version
from slc_ops.registry.tables import change_of, row_of, version_of
from slc_ops.registry.tables import deployment as deployments
from slc_ops.registry.tables import move as moves
from slc_ops.registry.tables import publication as publications

MAX_VERSION = 2**31 - 1
"""The largest number that fits the ledger's columns."""

Entry = TypeVar("Entry", Version, ChampionChange)


@dataclass(frozen=True)
class Head:
    """A deployment's row: the target of the aliases, and the revision that a promotion compares."""

    deployment: str
    revision: int = 0
    champion: int | None = None
    challenger: int | None = None


class Ledger:
    """Reads and writes of the ledger's tables; every method is one transaction.

    The tables contain UTC timestamps. ``zone_of`` returns the current time zone of a deployment; it applies
    to old windows, too.
    """

    def __init__(
        self, address: str, *, create: bool = True, zone_of: Callable[[str], str] = lambda name: "UTC"
    ) -> None:
        self.database = Database(address, create=create)
        self._zone_of = zone_of

    def in_zone(self, found: Entry) -> Entry:
        """Return a version or a change with its window in the deployment's time zone."""
        return replace(found, window=replace(found.window, zone=self._zone_of(found.deployment)))

    def deployments(self) -> list[str]:
        """Return every deployment with a row or a publication."""
        names = union(select(deployments.c.name), select(publications.c.deployment))
        with self.database.reading() as connection:
            return sorted(connection.scalars(names))

    def head(self, deployment: str) -> Head:
        """Return the deployment's row; a lost row is rebuilt from the champion history."""
        with self.database.reading() as connection:
            return _head(connection, deployment) or _rebuilt(connection, deployment)

    def row(self, deployment: str) -> Head | None:
        """Return the deployment's row as stored, or None."""
        with self.database.reading() as connection:
            return _head(connection, deployment)

    def line(self, deployment: str) -> list[ChampionChange]:
        """Return every move of the champion, oldest first."""
        with self.database.reading() as connection:
            return [self.in_zone(change) for change in _line(connection, deployment)]

    def published(self, key: str) -> Version | None:
        """Return the version of an idempotency key, or None; deleted versions do not count."""
        query = select(publications).where(publications.c.key == key, publications.c.retired_at.is_(None))
        with self.database.reading() as connection:
            row = connection.execute(query).first()
            return None if row is None else self.in_zone(version_of(row))

    def version(self, deployment: str, number: int) -> Version:
        """Return one version; an unknown number raises :class:`RegistryError`."""
        with self.database.reading() as connection:
            return self.in_zone(_find(connection, deployment, number))

    def versions(self, deployment: str) -> list[Version]:
        """Return every version of a deployment that was ever published, oldest first."""
        with self.database.reading() as connection:
            return [self.in_zone(version) for version in _versions(connection, deployment)]

    def record(self, version: Version, refers: Mapping[str, Any] | None = None) -> None:
        """Enter a version, and make it the challenger unless the champion or challenger has a later window.

        A backfill therefore never replaces a newer challenger. ``refers`` contains the digests of its inputs,
        for the chain. Raises :class:`RegistryError` if another version has this number.
        """
        name = version.deployment
        with self.database.writing() as connection:
            _check_number_is_free(connection, version)
            head = _ensured(connection, name)
            connection.execute(insert(publications).values(row_of(version)))
            append(connection, name, PUBLICATION, version.number, refers or {})
            rivals = [] if head.challenger is None else [_find(connection, name, head.challenger).window.end]
            rivals += [last.window.end for last in _line(connection, name)[-1:]]
            if all(end <= version.window.end for end in rivals):
                mine = update(deployments).where(deployments.c.name == name)
                connection.execute(mine.values(challenger=version.number))

    def advance(
        self,
        head: Head,
        version: Version | None,
        *,
        kind: str,
        actor: str,
        reason: str,
        override: str | None = None,
        evidence: Mapping[str, Any] | None = None,
    ) -> ChampionChange:
        """Compare and set: make ``version`` the champion if ``head`` is still the deployment's row.

        None as ``version`` retires the champion; the frozen model serves until a version is promoted.

        Raises:
            PromotionConflict: Another process changed the champion first.
            RegistryError: No champion to retire, or the version is unknown or deleted.
        """
        name, number = head.deployment, None if version is None else version.number
        with self.database.writing() as connection:
            _ensured(connection, name)
            moved = connection.execute(
                update(deployments)
                .where(deployments.c.name == name, deployments.c.revision == head.revision)
                .values(revision=head.revision + 1, champion=number)
            )
            if moved.rowcount != 1:
                raise _lost(connection, name, number)
            subject = number if number is not None else head.champion
            if subject is None:
                raise RegistryError(f"{name} has no champion that could be retired")
            found = _find(connection, name, subject)
            if number is not None:
                check_living(found)
            connection.execute(
                update(deployments)
                .where(deployments.c.name == name, deployments.c.challenger == number)
                .values(challenger=None)
            )
            move = ChampionChange(
                deployment=name,
                revision=head.revision + 1,
                kind=kind,
                from_version=head.champion,
                to_version=number,
                window=found.window,
                actor=actor,
                reason=reason,
                override=override,
                evidence=dict(evidence or {}),
                at=datetime.now(UTC),
            )
            connection.execute(insert(moves).values(row_of(move)))
            ends = {"from": move.from_version, "to": move.to_version}
            refers = {end: entry_of_version(connection, name, each).get("hash") for end, each in ends.items()}
            append(connection, name, MOVE, move.revision, refers)
        return self.in_zone(move)

    def repair(self, deployment: str) -> None:
        """Write the deployment's row, which is lost or behind, as the champion history gives it."""
        with self.database.writing() as connection:
            row, wanted = _ensured(connection, deployment), _rebuilt(connection, deployment)
            challenger = None if row.challenger == wanted.champion else row.challenger
            connection.execute(
                update(deployments)
                .where(deployments.c.name == deployment)
                .values(revision=wanted.revision, champion=wanted.champion, challenger=challenger)
            )

    def discard(self, deployment: str, keep: int) -> list[Version]:
        """Mark versions for deletion: beyond the ``keep`` newest, never champion, not the challenger.

        Returns every version marked so far, so an interrupted cleanup can restart.
        """
        with self.database.writing() as connection:
            head = _head(connection, deployment, lock=True) or _rebuilt(connection, deployment)
            kept = {head.challenger, *(move.to_version for move in _line(connection, deployment))}
            found = reversed(_versions(connection, deployment))
            archive = [each for each in found if each.number not in kept and each.retired_at is None]
            for version in archive[keep:]:
                connection.execute(
                    update(publications)
                    .where(publications.c.deployment == deployment, publications.c.version == version.number)
                    .values(retired_at=datetime.now(UTC))
                )
                append(connection, deployment, RETENTION, version.number, {})
        return [version for version in self.versions(deployment) if version.retired_at is not None]


def check_living(version: Version) -> None:
    """Raise :class:`RegistryError` for a version whose parameters were deleted."""
    if version.retired_at is not None:
        raise RegistryError(
            f"version {version.number} of {version.deployment} was cleaned away on "
            f"{version.retired_at:%Y-%m-%d}, its parameters are gone; refresh the window "
            f"{version.window} to publish it again"
        )


def _head(connection: Connection, deployment: str, *, lock: bool = False) -> Head | None:
    query = select(deployments).where(deployments.c.name == deployment)
    row = connection.execute(query.with_for_update() if lock else query).first()
    return None if row is None else Head(*row)


def _ensured(connection: Connection, deployment: str) -> Head:
    """Return the deployment's row, locked; a missing row is rebuilt from the champion history."""
    head = _head(connection, deployment, lock=True)
    if head is None:
        head = _rebuilt(connection, deployment)
        connection.execute(
            insert(deployments).values(
                name=deployment, revision=head.revision, champion=head.champion, challenger=head.challenger
            )
        )
    return head


def _rebuilt(connection: Connection, deployment: str) -> Head:
    """Derive the deployment's row: the end of the history, and the newest pending version.

    A version is pending if it was never champion, is not deleted, and its window does not end before that of
    the champion or, after a retirement, of the last champion.
    """
    line = _line(connection, deployment)
    champion = line[-1].to_version if line else None
    been = {move.to_version for move in line}
    since = line[-1].window.end if line else None
    waiting = [
        version
        for version in _versions(connection, deployment)
        if version.number not in been
        and version.retired_at is None
        and (since is None or version.window.end >= since)
    ]
    newest = max(waiting, key=lambda version: (version.window.end, version.number), default=None)
    return Head(deployment, len(line), champion, None if newest is None else newest.number)


def _versions(connection: Connection, deployment: str) -> list[Version]:
    query = select(publications).where(publications.c.deployment == deployment)
    return [version_of(row) for row in connection.execute(query.order_by(publications.c.version))]


def _line(connection: Connection, deployment: str) -> list[ChampionChange]:
    query = select(moves).where(moves.c.deployment == deployment).order_by(moves.c.revision)
    return [change_of(row) for row in connection.execute(query)]


def _find(connection: Connection, deployment: str, number: int) -> Version:
    query = select(publications).where(
        publications.c.deployment == deployment, publications.c.version == number
    )
    # MLflow counts from 1, and larger numbers do not fit the database column.
    row = connection.execute(query).first() if 1 <= number <= MAX_VERSION else None
    if row is None:
        raise RegistryError(
            f"the ledger has no version {number} of {deployment}; a version enters it when slc_ops "
            "publishes it (slc-ops status lists them)"
        )
    return version_of(row)


def _check_number_is_free(connection: Connection, version: Version) -> None:
    known = {each.number: each.key for each in _versions(connection, version.deployment)}
    if known.get(version.number, version.key) != version.key:
        raise RegistryError(
            f"MLflow gave the number {version.number} to a new version of {version.deployment}, but the "
            "ledger has another version of that number: the two do not belong together; check "
            "MLFLOW_TRACKING_URI and SLC_OPS_LEDGER_URL"
        )


def _lost(connection: Connection, deployment: str, number: int | None) -> PromotionConflict:
    line = _line(connection, deployment)
    winner = str(line[-1]) if line else "another process moved first"
    wanted = (
        f"the champion of {deployment} was not retired"
        if number is None
        else f"version {number} of {deployment} was not made champion"
    )
    return PromotionConflict(f"{wanted}: {winner} in the meantime; check the new champion, then decide again")
