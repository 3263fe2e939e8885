"""Summaries of deployments: of many in a few queries, and of one's serving method."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import ColumnElement, func, or_, select, tuple_

from slc_ops.base.window import Window
from slc_ops.registry.ledger import Head, Ledger
from slc_ops.registry.publication import RENEWAL, ChampionChange, Version
from slc_ops.registry.rules import TakenBack, taken_back
from slc_ops.registry.tables import change_of, version_of
from slc_ops.registry.tables import deployment as deployments
from slc_ops.registry.tables import move as moves
from slc_ops.registry.tables import publication as publications


@dataclass
class Glance:
    """A deployment's row, its last move, and its newest versions, champion and challenger."""

    head: Head
    versions: list[Version] = field(default_factory=list)
    """Ordered by window, then by number."""
    last: ChampionChange | None = None
    changes: list[ChampionChange] = field(default_factory=list)
    """All changes but renewals, oldest first."""

    @property
    def champion(self) -> Version | None:
        """The champion, or None."""
        return self._version(self.head.champion)

    @property
    def challenger(self) -> Version | None:
        """The newest pending version, or None."""
        return self._version(self.head.challenger)

    @property
    def retired(self) -> ChampionChange | None:
        """The retirement in force, or None."""
        return self.last if self.head.champion is None else None

    @property
    def taken_back(self) -> list[TakenBack]:
        """The champions that people removed."""
        return taken_back(self.changes)

    def _version(self, number: int | None) -> Version | None:
        return next((version for version in self.versions if version.number == number), None)


def overview(ledger: Ledger, names: Sequence[str], newest: int) -> dict[str, Glance]:
    """Return the ledger's summary of each deployment, with its ``newest`` versions."""
    with ledger.database.reading() as connection:
        rows = connection.execute(select(deployments).where(deployments.c.name.in_(names)))
        heads = {row.name: Head(*row) for row in rows}
    found = {name: Glance(heads.get(name) or ledger.head(name)) for name in names}  # a lost row is rebuilt
    place: ColumnElement[int] = func.row_number().over(
        partition_by=publications.c.deployment,
        order_by=[publications.c.window_end.desc(), publications.c.version.desc()],
    )
    ranked = select(publications, place.label("place")).where(publications.c.deployment.in_(names)).subquery()
    named = [
        (name, number)
        for name, each in found.items()
        for number in (each.head.champion, each.head.challenger)
        if number is not None
    ]
    shown = (
        select(*(ranked.c[column.name] for column in publications.c))
        .where(or_(ranked.c.place <= newest, tuple_(ranked.c.deployment, ranked.c.version).in_(named)))
        .order_by(ranked.c.window_end, ranked.c.version)
    )
    last = [(name, each.head.revision) for name, each in found.items()]
    with ledger.database.reading() as connection:
        for row in connection.execute(shown):
            found[row.deployment].versions.append(ledger.in_zone(version_of(row)))
        for row in connection.execute(
            select(moves).where(tuple_(moves.c.deployment, moves.c.revision).in_(last))
        ):
            found[row.deployment].last = ledger.in_zone(change_of(row))
        rare = select(moves).where(moves.c.deployment.in_(names), moves.c.kind != RENEWAL)
        for row in connection.execute(rare.order_by(moves.c.revision)):
            found[row.deployment].changes.append(ledger.in_zone(change_of(row)))
    return found


def what_serves(
    champion: Version | None, line: Sequence[ChampionChange], versions: Sequence[Version]
) -> dict[str, Any] | None:
    """Return the champion's method, the window it serves since, and the window of its parameters.

    ``line`` contains the moves of the champion and ``versions`` the publications, both oldest first.
    ``series`` is the mean difference in NLL over the evidence windows, against Platt and the frozen model
    (``base``), at publication; ``since_start`` is that against the frozen model over the windows that the
    method had served. Each is None if not recorded. Returns None if the frozen model serves.
    """
    if champion is None:
        return None
    return {
        "method": champion.method,
        "since": serves_since(champion, line, versions).as_dict(),
        "parameters": champion.window.as_dict(),
        "series": champion.metrics.get("series"),
        "since_start": champion.metrics.get("since_start"),
    }


def serves_since(champion: Version, line: Sequence[ChampionChange], versions: Sequence[Version]) -> Window:
    """Return the window whose refresh made the champion's method serve; renewals do not count."""
    known = {version.number: version for version in versions}
    since = champion
    for move in reversed(line):
        before = known.get(move.to_version) if move.to_version is not None else None
        if before is None or before.method != champion.method:
            break
        since = before
    return since.window
