"""The ledger's rows as a hash chain: changing, removing or inserting a row later breaks it.

Every new row (a version, a move of the champion, a receipt of an erasure, the mark of a deleted version) adds
an entry to ``slc_chain`` in the same transaction. An entry's hash is the SHA-256 of the deployment, its
position, the digest of its row, the digests that the row refers to, and the previous entry's hash. With
``SLC_OPS_LEDGER_KEY`` it is signed (Ed25519).

Without signatures, anyone with write access to the database can compute a new chain: store a head elsewhere,
or sign.
"""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import Column, Connection, Table, insert, select, text

from slc_ops.base.digests import digest_json, lock_number
from slc_ops.base.errors import SettingsError
from slc_ops.base.json_form import JsonForm
from slc_ops.registry.tables import chain as entries
from slc_ops.registry.tables import erasure, move, publication
from slc_ops.settings.environment import RegistryVariables

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

    from slc_ops.registry.ledger import Ledger

PUBLICATION, MOVE, ERASURE, RETENTION = "publication", "move", "erasure", "retention"
_KEYS: dict[str, Column[Any]] = {
    PUBLICATION: publication.c.version,
    MOVE: move.c.revision,
    ERASURE: erasure.c.key,
    RETENTION: publication.c.version,
}
_WORDS = {
    PUBLICATION: "version {}",
    MOVE: "move {} of the champion",
    ERASURE: "the receipt {:.12} of an erasure",
    RETENTION: "the mark that version {} was cleaned away",
}
_START = ""


@dataclass(frozen=True)
class Chain(JsonForm):
    """The state of a deployment's chain; its form is that of ``slc-ops verify --chain``."""

    rows: int
    head: str
    signed: int
    problems: list[str]
    """The first break, then rows without an entry; empty if the chain is intact."""


def append(
    connection: Connection, deployment: str, kind: str, key: int | str, refers: Mapping[str, Any]
) -> None:
    """Append an entry for a row that this transaction has written."""
    if connection.dialect.name == "postgresql":  # SQLite has one writer; the lock ends with the transaction
        number = lock_number(f"slc-chain:{deployment}")
        connection.execute(text("SELECT pg_advisory_xact_lock(:n)"), {"n": number})
    last = connection.execute(
        select(entries.c.position, entries.c.hash)
        .where(entries.c.deployment == deployment)
        .order_by(entries.c.position.desc())
        .limit(1)
    ).first()
    # Digest the row as the database returns it, because the check reads it the same way.
    found = connection.execute(_rows(kind, deployment).where(_KEYS[kind] == key)).one()
    values = {
        "deployment": deployment,
        "position": 1 if last is None else last.position + 1,
        "kind": kind,
        "key": str(key),
        "digest": _digest(dict(found._mapping)),
        "refers": dict(refers),
        "previous": _START if last is None else last.hash,
    }
    hashed = digest_json(values)
    connection.execute(insert(entries).values(**values, hash=hashed, signature=sign(hashed)))


def entry_of_version(connection: Connection, deployment: str, version: int | None) -> Mapping[str, Any]:
    """Return the hash of a version's entry, and the digests that it refers to; {} without an entry."""
    query = select(entries.c.hash, entries.c.refers).where(
        entries.c.deployment == deployment, entries.c.kind == PUBLICATION, entries.c.key == str(version)
    )
    found = connection.execute(query).first()
    return {} if found is None else dict(found._mapping)


def check_chain(
    ledger: "Ledger", deployment: str, keys: "Keys | None" = None, head: str | None = None
) -> Chain:
    """Verify the chain and compare every row with its entry; ``head`` is a former last hash or a prefix."""
    with ledger.database.reading() as connection:
        query = select(entries).where(entries.c.deployment == deployment).order_by(entries.c.position)
        chain = [dict(row._mapping) for row in connection.execute(query)]
        found = {
            (kind, str(row._mapping[key.name])): _digest(dict(row._mapping))
            for kind, key in _KEYS.items()
            for row in connection.execute(_rows(kind, deployment).order_by(key))
        }
    first = _first_break(chain, found, keys)
    problems = [] if first is None else [first]
    entered = {(entry["kind"], entry["key"]) for entry in chain}
    problems += [
        f"{_WORDS[kind].format(key)} has no entry in the chain: it was inserted past slc_ops, or its entry "
        "was removed"
        for kind, key in found
        if (kind, key) not in entered
    ]
    if head is not None and not any(entry["hash"].startswith(head) for entry in chain):
        problems.append(f"no row has the hash {head}: rows were cut off, or the chain was rewritten")
    signed = sum(entry["signature"] is not None for entry in chain)
    if keys is not None and keys.given and chain and not signed:
        problems.append("no row is signed, though a key was given: signatures were removed, or never made")
    return Chain(len(chain), chain[-1]["hash"] if chain else _START, signed, problems)


def _first_break(
    chain: Sequence[Mapping[str, Any]], found: Mapping[tuple[str, str], str], keys: "Keys | None"
) -> str | None:
    previous, signed = _START, False
    for position, entry in enumerate(chain, 1):
        name = _WORDS[entry["kind"]].format(entry["key"])
        if entry["position"] != position:
            return f"row {position} was removed: row {entry['position']} ({name}) comes next"
        unhashed = {each: value for each, value in entry.items() if each not in ("hash", "signature")}
        digest, signature = found.get((entry["kind"], entry["key"])), entry["signature"]
        foreign = keys is not None and signature is not None and not keys.signed(entry["hash"], signature)
        breaks = {
            "does not follow the row before it: one was removed, inserted or replaced": (
                entry["previous"] != previous
            ),
            "was changed: its entry does not match its hash": (digest_json(unhashed) != entry["hash"]),
            f"was removed: its entry exists, {name} does not": digest is None,
            f"was changed: {name} differs from its entry": digest != entry["digest"],
            "is not signed, but earlier rows are": signed and not signature,
            "is not signed by a key that was given": foreign,
        }
        for sentence, broken in breaks.items():
            if broken:
                return f"row {position} ({name}) {sentence}"
        previous, signed = entry["hash"], signed or signature is not None
    return None


def _rows(kind: str, deployment: str) -> Any:
    """Select the rows of one kind, without ``retired_at``, the only column that is set later."""
    table: Table = _KEYS[kind].table
    if kind == RETENTION:
        mark = publication.c.retired_at
        query = select(publication.c.version, mark).where(mark.is_not(None))
    else:
        query = select(*(column for column in table.c if column.name != "retired_at"))
    return query.where(table.c.deployment == deployment)


def _digest(row: Mapping[str, Any]) -> str:
    return digest_json(
        {name: each.isoformat() if isinstance(each, datetime) else each for name, each in row.items()}
    )


# --- signatures: Ed25519 with the operator's key, if one is configured --------------------------------------

_MAKE = "openssl genpkey -algorithm ed25519 -out ledger.pem makes one"


def sign(hashed: str) -> str | None:
    """Sign an entry's hash with the key of ``SLC_OPS_LEDGER_KEY``; None without a key."""
    path = RegistryVariables.read().ledger_key
    return None if path is None else base64.b64encode(_private(path).sign(hashed.encode())).decode()


class Keys:
    """Public keys for checking signatures; ``given`` is True for files, False for the environment's key."""

    def __init__(self, keys: "Sequence[Ed25519PublicKey]", *, given: bool) -> None:
        self._keys = keys
        self.given = given

    @classmethod
    def read(cls, paths: Sequence[Path] = ()) -> "Keys | None":
        """Read these files, or the public half of ``SLC_OPS_LEDGER_KEY``; None without either."""
        if paths:
            return cls([_public(path) for path in paths], given=True)
        own = RegistryVariables.read().ledger_key
        return None if own is None else cls([_private(own).public_key()], given=False)

    def signed(self, hashed: str, signature: str) -> bool:
        """Return True if one of the keys made this signature."""
        from cryptography.exceptions import InvalidSignature

        for key in self._keys:
            try:
                key.verify(base64.b64decode(signature), hashed.encode())
            except (InvalidSignature, ValueError):
                continue
            return True
        return False


def _private(path: Path) -> "Ed25519PrivateKey":
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        found = load_pem_private_key(_bytes(path), password=None)
    except (TypeError, ValueError):
        found = None
    if not isinstance(found, Ed25519PrivateKey):
        raise SettingsError(
            f"SLC_OPS_LEDGER_KEY names {path}: no private Ed25519 key in PEM without a password; {_MAKE}"
        )
    return found


def _public(path: Path) -> "Ed25519PublicKey":
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        found = load_pem_public_key(_bytes(path))
    except ValueError:
        found = None
    if not isinstance(found, Ed25519PublicKey):
        raise SettingsError(
            f"{path} is not a public Ed25519 key in PEM; write it with openssl pkey -in KEY -pubout -out FILE"
        )
    return found


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise SettingsError(f"the ledger's key {path} cannot be read: {error.strerror}; {_MAKE}") from None
