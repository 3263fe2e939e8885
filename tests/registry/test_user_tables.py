"""User tables: a user is erased from every version, and old versions keep no users."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from slc_ops.methods import fit
from slc_ops.parameters.effects import Effect
from slc_ops.parameters.parameter_set import ParameterSet
from slc_ops.parameters.storage import remove_users
from slc_ops.refresh.erasure import erase_from
from slc_ops.refresh.user_tables import drop_user_tables
from slc_ops.registry import Registry, Version
from slc_ops.registry.erasures import recorded_erasures
from slc_ops.settings.environment import Installation
from tests.registry.factory import WEEKS, files_of, installation_in, interactions, publication

pytestmark = pytest.mark.slow  # versions with tables of users

USERS = ["user-1", "user-17", "user-2"]


def write_set(directory: Path, window: int, users: list[str] = USERS) -> Path:
    """A set of slc_mix with a table of users."""
    table = pa.table({"id": users, "offset": [0.1 * (k + 1) for k in range(len(users))]})
    found = replace(fit("slc_mix", interactions(window)), cold=None)
    with_users = found.with_effect("user", Effect(table, 0.2))
    with_users.with_provenance(deployment="demo", window=WEEKS[window]).write(directory)
    return directory


@pytest.fixture
def home(tmp_path: Path) -> tuple[Installation, Registry, list[Version]]:
    """Three versions, the last one champion."""
    installation = installation_in(tmp_path)
    registry, versions = Registry.open(installation), []
    for number in range(3):
        path = write_set(tmp_path / "sets" / str(number), number)
        what = publication(path, method="slc_mix", window=WEEKS[number], input_digest=f"{number}" * 64)
        versions.append(registry.publish(what))
        registry.promote("demo", versions[-1].number, actor="ann", reason="test")
    return installation, registry, versions


def users_of(registry: Registry, version: Version) -> list[str]:
    return list(ParameterSet.read(files_of(registry, version)).effects["user"].table["id"].to_pylist())


def test_a_user_is_erased_from_every_version_and_the_receipt_lists_the_resealed_sets(
    home: tuple[Installation, Registry, list[Version]],
) -> None:
    installation, registry, versions = home
    before = [ParameterSet.read(files_of(registry, each)) for each in versions]
    receipt = erase_from(installation, registry, "demo", ["user-17"], actor="ann")
    assert sorted(receipt.details["resealed"]) == [str(each.number) for each in versions]
    for version, old in zip(versions, before, strict=True):
        assert users_of(registry, version) == ["user-1", "user-2"]
        files = files_of(registry, version)
        assert not any(b"user-17" in path.read_bytes() for path in files.iterdir())
        new, probe = ParameterSet.read(files), (["item-1", "item-2"], [0.3, -1.0])
        for user in ("user-1", "user-2", "never seen"):
            expected = old.correct(*probe, users=[user] * 2).tolist()
            assert new.correct(*probe, users=[user] * 2).tolist() == expected
        assert new.correct(*probe, users=["user-17"] * 2).tolist() == new.correct(*probe).tolist()
    assert registry.verify("demo") == []
    again = erase_from(installation, registry, "demo", ["user-17"], actor="bob")
    assert again == receipt
    assert recorded_erasures(registry.ledger, "demo") == [receipt]


def test_old_versions_keep_no_users_and_a_rollback_to_one_still_verifies(
    home: tuple[Installation, Registry, list[Version]],
) -> None:
    installation, registry, versions = home
    assert drop_user_tables(installation, "demo") == ["1"]  # version 3 serves, a rollback would restore 2
    assert [len(users_of(registry, each)) for each in versions] == [0, 3, 3]
    assert drop_user_tables(installation, "demo") == []
    registry.rollback("demo", to=1, actor="ann", reason="test")
    assert registry.verify("demo") == []


def test_clean_keeps_user_tables_of_the_champion_and_the_rollback_target(
    home: tuple[Installation, Registry, list[Version]],
) -> None:
    installation, registry, versions = home
    assert drop_user_tables(installation, "demo") == ["1"]  # version 3 serves, a rollback would restore 2
    assert [len(users_of(registry, each)) for each in versions] == [0, 3, 3]
    registry.rollback("demo", actor="ann", reason="test")
    assert drop_user_tables(installation, "demo") == ["3"]  # version 2 serves, a rollback would restore 1
    assert [len(users_of(registry, each)) for each in versions] == [0, 3, 0]
    assert registry.verify("demo") == []


def test_a_set_without_that_user_is_unchanged(tmp_path: Path) -> None:
    path = write_set(tmp_path / "set", 0)
    before = {each.name: (each.read_bytes(), each.stat().st_mtime_ns) for each in path.iterdir()}
    assert remove_users(path, lambda user: user == "user-3") == 0
    assert before == {each.name: (each.read_bytes(), each.stat().st_mtime_ns) for each in path.iterdir()}
    assert remove_users(path, lambda user: True) == 3
    assert ParameterSet.read(path).effects["user"].table.num_rows == 0
