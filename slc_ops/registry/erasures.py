"""Receipts of erasures in the ledger: append-only, without user ids."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import insert, select

from slc_ops.base.digests import digest_json
from slc_ops.registry.chain import ERASURE, append
from slc_ops.registry.ledger import Ledger
from slc_ops.registry.tables import erasure as erasures


@dataclass(frozen=True)
class Receipt:
    """The record of one erasure in a deployment.

    ``details`` contains the users as salted hashes, the deleted rows and windows, and the versions that were
    fitted on them.
    """

    deployment: str
    key: str
    actor: str
    details: Mapping[str, Any]
    at: datetime

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form, with the number of users instead of their hashes."""
        details = {name: value for name, value in self.details.items() if name != "users"}
        return {
            "deployment": self.deployment,
            "key": self.key,
            "actor": self.actor,
            "at": self.at.isoformat(),
            "users": len(self.details["users"]),
            **details,
        }


def record_erasure(ledger: Ledger, deployment: str, details: Mapping[str, Any], actor: str) -> Receipt:
    """Append a receipt and return it; a receipt with the same details is returned instead of a second one."""
    key = digest_json([deployment, dict(details)])
    with ledger.database.writing() as connection:
        query = select(erasures).where(erasures.c.deployment == deployment, erasures.c.key == key)
        row = connection.execute(query).first()
        if row is None:
            receipt = Receipt(deployment, key, actor, dict(details), datetime.now(UTC))
            connection.execute(
                insert(erasures).values(
                    deployment=deployment, key=key, actor=actor, receipt=receipt.details, at=receipt.at
                )
            )
            append(connection, deployment, ERASURE, key, {})
            return receipt
        return Receipt(*row)


def resealed_digest(ledger: Ledger, deployment: str, version: int) -> str | None:
    """Return the digest of a version's set after the last erasure in it; None without one."""
    found = [
        each.details.get("resealed", {}).get(str(version)) for each in recorded_erasures(ledger, deployment)
    ]
    return next((digest for digest in reversed(found) if digest), None)


def recorded_erasures(ledger: Ledger, deployment: str) -> list[Receipt]:
    """Return the receipts of a deployment, oldest first."""
    query = select(erasures).where(erasures.c.deployment == deployment).order_by(erasures.c.at)
    with ledger.database.reading() as connection:
        return [Receipt(*row) for row in connection.execute(query)]
