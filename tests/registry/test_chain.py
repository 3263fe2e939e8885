"""The ledger as a hash chain: a changed, removed or inserted row is found offline and named."""

import re
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from slc_ops.base.errors import SettingsError
from slc_ops.registry import Registry
from slc_ops.registry.chain import Keys, check_chain
from slc_ops.registry.erasures import record_erasure
from slc_ops.registry.ledger import Ledger
from tests.registry.factory import WEEKS, files_of, parameter_set, publication
from tests.registry.test_ledger import version

ROWS = 6


def fill(address: str) -> Ledger:
    """Rows 1 to 6: two versions and their promotions, an erasure, a version that is cleaned."""
    ledger = Ledger(address)
    for number in (1, 2):
        ledger.record(version(number, number), {"parameters": f"{number:064d}"})
        ledger.advance(ledger.head("demo"), version(number), kind="promotion", actor="ann", reason="good")
    record_erasure(ledger, "demo", {"users": ["ab12"]}, "ann")
    ledger.record(replace(version(3), key="f" * 64))
    return ledger


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return fill(f"sqlite:///{tmp_path}/ledger.db")


def by_hand(ledger: Ledger, *statements: str) -> None:
    """Edit the database directly, without triggers and foreign keys."""
    with sqlite3.connect(str(ledger.database.url.database)) as connection:
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            connection.execute(statement)


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def test_the_rows_form_an_unbroken_chain(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if kind == "postgresql":
        fresh: Callable[[], str] = request.getfixturevalue("postgres")
        ledger = fill(fresh())
    else:
        ledger = fill(f"sqlite:///{tmp_path}/ledger.db")
    found = check_chain(ledger, "demo")
    assert (found.rows, found.problems) == (ROWS, [])
    ledger.record(version(4, 4))
    assert ledger.discard("demo", keep=0) == [ledger.version("demo", 3)]
    grown = check_chain(ledger, "demo", head=found.head)
    assert (grown.rows, grown.problems) == (ROWS + 2, [])


MOVE = (
    "SELECT deployment, {}, kind, from_version, to_version, window_start, window_end, 'eve', reason, override"
)
MOVE += ", evidence, at FROM slc_move WHERE revision = 1"
ATTACKS = {
    "UPDATE slc_move SET actor = 'bob' WHERE revision = 1": r"row 2 \(move 1 .*was changed",
    "UPDATE slc_publication SET verdict = 'hold' WHERE version = 2": r"row 3 \(version 2\) was changed",
    "UPDATE slc_erasure SET receipt = '{}'": r"row 5 \(the receipt .*was changed",
    "DELETE FROM slc_move WHERE revision = 2": r"row 4 \(move 2 .*was removed",
    f"INSERT INTO slc_move {MOVE.format(7)}": "move 7 of the champion has no entry",
    "UPDATE slc_publication SET retired_at = '2026-01-01' WHERE version = 3": "the mark that version 3 was",
    "DELETE FROM slc_chain WHERE position = 3": r"row 3 was removed: row 4 \(move 2",
    "UPDATE slc_chain SET refers = '{}' WHERE position = 1": r"row 1 \(version 1\) was changed: its entry",
    "UPDATE slc_chain SET previous = 'x' WHERE position = 4": r"row 4 .*does not follow",
}


@pytest.mark.faults(
    "a row of the ledger is changed, removed or inserted manually, without triggers",
    "`verify --chain` names the first such row, offline",
)
@pytest.mark.parametrize("statement", ATTACKS)
def test_the_first_altered_row_is_named(ledger: Ledger, statement: str) -> None:
    by_hand(ledger, statement)
    first, *_ = check_chain(ledger, "demo").problems
    assert re.search(ATTACKS[statement], first), first


def test_a_truncated_chain_lacks_the_recorded_head(ledger: Ledger) -> None:
    noted = check_chain(ledger, "demo").head
    by_hand(
        ledger, "DELETE FROM slc_chain WHERE position = 6", "DELETE FROM slc_publication WHERE version = 3"
    )
    assert check_chain(ledger, "demo").problems == []
    (problem,) = check_chain(ledger, "demo", head=noted).problems
    assert problem.startswith(f"no row has the hash {noted}")


@pytest.fixture
def keys(tmp_path: Path) -> tuple[Path, Path]:
    """A private key and its public half, in files."""
    key = Ed25519PrivateKey.generate()
    private, public = tmp_path / "ledger.pem", tmp_path / "ledger.pub"
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    return private, public


def test_a_rewritten_chain_lacks_the_operators_signature(
    ledger: Ledger, keys: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SLC_OPS_LEDGER_KEY", str(keys[0]))
    for number in (4, 5):
        ledger.record(version(number, number))
    given = Keys.read([keys[1]])
    found = check_chain(ledger, "demo", given)
    assert (found.rows, found.signed, found.problems) == (ROWS + 2, 2, [])

    by_hand(ledger, "UPDATE slc_chain SET signature = NULL WHERE position = 8")
    assert "not signed, but earlier rows are" in check_chain(ledger, "demo", given).problems[0]
    by_hand(ledger, "UPDATE slc_chain SET signature = 'bm90IG1pbmU=' WHERE position = 8")
    assert "row 8 (version 5) is not signed by a key" in check_chain(ledger, "demo", given).problems[0]
    by_hand(ledger, "UPDATE slc_chain SET signature = NULL")
    assert "no row is signed" in check_chain(ledger, "demo", given).problems[0]


def test_an_invalid_key_is_refused_before_anything_is_written(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "bad.pem").write_text("no key")
    for path, said in (("bad.pem", "no private Ed25519 key"), ("absent.pem", "cannot be read")):
        monkeypatch.setenv("SLC_OPS_LEDGER_KEY", str(tmp_path / path))
        with pytest.raises(SettingsError, match=said):
            ledger.record(version(4, 4))
    assert check_chain(ledger, "demo").rows == ROWS == len(ledger.versions("demo")) + 3


def test_verify_detects_a_consistent_but_different_parameter_set(
    registry: Registry, parameters: Path, tmp_path: Path
) -> None:
    """Digests and golden vectors of the new set match it: only the ledger shows that it was replaced."""
    published = registry.publish(publication(parameters, window=WEEKS[0]))
    registry.promote("demo", published.number, actor="ann", reason="good")
    assert registry.verify("demo") == []
    stored = files_of(registry, published)
    for path in parameter_set(tmp_path / "other", seed=7).iterdir():
        (stored / path.name).write_bytes(path.read_bytes())
    (finding,) = registry.verify("demo")
    assert "another parameter set than the one that was published" in str(finding)
