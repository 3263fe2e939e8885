"""An erased user is in no file, and a refresh equals that of a log without the user."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from slc_ops.base.errors import InputError, MissingFile, StorageError
from slc_ops.base.window import Window
from slc_ops.intake.erased import read_users
from slc_ops.intake.manifest import WindowManifest
from slc_ops.refresh import pipeline
from slc_ops.refresh.erasure import erase
from slc_ops.refresh.fitting import fitted, published_rows
from slc_ops.refresh.plan import Plan
from slc_ops.registry import Registry
from slc_ops.registry.erasures import recorded_erasures
from slc_ops.settings.environment import Installation
from tests.refresh.school import NEWEST, configure
from tests.registry.factory import installation_in, no_file_above

pytestmark = pytest.mark.slow

USER = "user-000017"
SIXTH = Window.parse("2026-02-09/2026-02-16")


def telling(table: pa.Table) -> pa.Table:
    """Event ids that contain the user's; the user's first row of every week has an invalid label."""
    ids = pc.binary_join_element_wise(table["user_id"], table["event_id"], ":")
    first = pc.equal(table["event_id"], pc.filter(table["event_id"], pc.equal(table["user_id"], USER))[0])
    labels = pc.if_else(first, pa.scalar(2, table["label"].type), table["label"])
    table = table.set_column(table.column_names.index("event_id"), "event_id", ids)
    return table.set_column(table.column_names.index("label"), "label", labels)


def rewritten(lake: Path, target: Path, change: object) -> Path:
    shutil.copytree(lake, target)
    for part in target.glob("week=*/*.parquet"):
        pq.write_table(change(pq.read_table(part, partitioning=None)), part)  # type: ignore[operator]
    return target


def home_on(lake: Path) -> Installation:
    """A home next to a lake, with the same settings for any path."""
    home = lake.with_name("home")
    home.mkdir()
    installation = installation_in(home)
    configure(installation, source={"kind": "lake", "path": "../lake"}, methods=["platt", "slc"])
    return installation


@pytest.fixture(scope="module")
def lakes(lake: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The lake with the user, and the same without."""
    full = rewritten(lake, tmp_path_factory.mktemp("full") / "lake", telling)
    never = tmp_path_factory.mktemp("never") / "lake"
    return full, rewritten(full, never, lambda t: t.filter(pc.not_equal(t["user_id"], USER)))


@pytest.fixture(scope="module")
def refreshed(lakes: tuple[Path, Path]) -> Path:
    """A home with the sixth week refreshed and published. It contains paths: copy it to the same path."""
    installation = home_on(lakes[0])
    pipeline.refresh(installation, "school", SIXTH)
    shutil.copytree(installation.home, installation.home.with_name("kept"))
    return installation.home


@pytest.fixture
def installation(refreshed: Path) -> Installation:
    shutil.rmtree(refreshed)
    shutil.copytree(refreshed.with_name("kept"), refreshed)
    return installation_in(refreshed)


def files_with(home: Path, text: str) -> list[str]:
    """Files whose bytes or Parquet values contain a text."""
    found = []
    for path in home.rglob("*"):
        if not path.is_file():
            continue
        held = text.encode() in path.read_bytes()
        if path.suffix == ".parquet":
            columns = pq.read_table(path).columns
            held = held or any(text in str(value) for column in columns for value in column.to_pylist())
        if held:
            found.append(str(path.relative_to(home)))
    return found


def parameters(plan: Plan, verdict: dict[str, Any]) -> dict[str, bytes]:
    rows = published_rows(plan, verdict["method"], verdict["options"])
    fitted(plan, verdict["method"], rows, plan.files.parameters)
    return {path.name: path.read_bytes() for path in plan.files.parameters.iterdir()}


def test_before_erasure_only_rows_and_sums_name_the_user(installation: Installation) -> None:
    """Results, pages, plans and published files identify a failing row by its number."""
    found = files_with(installation.home, USER)
    for part in ("log.parquet", "quarantine.parquet"):
        assert any(name.endswith(part) for name in found), part
    assert [name for name in found if not name.endswith(".parquet") or name.startswith("mlflow")] == []
    for quoting in ("validation.json", "plan.json"):
        path = next(installation.home.rglob(quoting))
        assert '"label": 2' in path.read_text(), quoting


def test_an_erased_user_is_in_no_file_and_the_receipt_names_the_affected_versions(
    installation: Installation,
) -> None:
    (receipt,) = erase(installation, [USER], actor="ann")
    assert files_with(installation.home, USER) == []
    assert (receipt.actor, receipt.details["versions"], receipt.details["unknown_versions"]) == (
        "ann",
        [1],
        [],
    )
    assert len(receipt.details["rows"]) == 6  # the weeks of the lake that were extracted
    assert recorded_erasures(Registry.open(installation).ledger, "school") == [receipt]
    assert Registry.open(installation).verify("school") == []


def test_a_refresh_after_erasure_equals_that_of_a_log_without_the_user(
    installation: Installation, lakes: tuple[Path, Path]
) -> None:
    erase(installation, [USER], actor="ann")
    after, never = (
        pipeline.refresh(each, "school", NEWEST, until="decide") for each in (installation, home_on(lakes[1]))
    )
    verdict = pipeline.decide(after)
    assert after.path.parent.name == never.path.parent.name  # the same key
    assert parameters(after, verdict) == parameters(never, verdict)


def test_erasing_twice_gives_the_same_receipt_and_changes_nothing(installation: Installation) -> None:
    first = erase(installation, [USER], actor="ann")
    before = {path: path.stat().st_mtime_ns for path in installation.windows("school").rglob("*.parquet")}
    assert erase(installation, [USER], actor="bob") == first
    assert {
        path: path.stat().st_mtime_ns for path in installation.windows("school").rglob("*.parquet")
    } == before


def test_an_unknown_user_gives_an_empty_receipt(installation: Installation) -> None:
    (receipt,) = erase(installation, ["nobody"], actor="ann")
    assert receipt.details["rows"] == {}
    assert receipt.details["versions"] == []


def test_a_full_disk_during_an_erasure_loses_nothing(installation: Installation) -> None:
    smallest = min(path.stat().st_size for path in installation.windows("school").glob("2026-*/log.parquet"))
    with no_file_above(smallest // 2), pytest.raises(StorageError):
        erase(installation, [USER], actor="ann")
    for window in installation.windows("school").glob("2026-*"):
        WindowManifest.read(window).verify()  # complete and unchanged
    assert recorded_erasures(Registry.open(installation).ledger, "school") == []
    (receipt,) = erase(installation, [USER], actor="ann")
    assert files_with(installation.home, USER) == []
    assert receipt.details["versions"] == [1]


def test_a_restored_window_is_erased_again_with_a_new_receipt(installation: Installation) -> None:
    window = installation.windows("school") / SIXTH.key
    shutil.copytree(window, installation.home / "backup")
    erase(installation, [USER], actor="ann")
    shutil.rmtree(window)
    os.replace(installation.home / "backup", window)
    (again,) = erase(installation, [USER], actor="ann")
    assert list(again.details["rows"]) == [SIXTH.key]
    assert files_with(installation.home, USER) == []
    assert len(recorded_erasures(Registry.open(installation).ledger, "school")) == 2


def test_a_refresh_without_a_result_starts_over(installation: Installation) -> None:
    plan = pipeline.read_plan(next(installation.refreshes("school").glob("*/*/plan.json")))
    plan.files.versions.unlink()
    erase(installation, [USER], actor="ann")
    with pytest.raises(MissingFile, match="run again what wrote it"):
        pipeline.read_plan(plan.path)
    assert files_with(installation.home, USER) == []


def test_lists_of_users_may_have_any_format(tmp_path: Path) -> None:
    (tmp_path / "users.txt").write_text("17\n\nann\n17\n")
    (tmp_path / "users.csv").write_text("user_id,x\n007,1\n,2\n")
    pq.write_table(pa.table({"who": [7, None]}), tmp_path / "users.parquet")
    assert read_users(tmp_path / "users.txt") == ["17", "ann"]
    assert read_users(tmp_path / "users.csv") == ["007"]
    assert read_users(tmp_path / "users.parquet", "who") == ["7"]
    with pytest.raises(InputError, match="no column 'user_id'; it has who"):
        read_users(tmp_path / "users.parquet")
    (tmp_path / "empty").write_text("\n")
    with pytest.raises(InputError, match="no user id"):
        read_users(tmp_path / "empty")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="not UTF-8"):
        read_users(tmp_path / "binary")


def killed(installation: Installation, pieces: int) -> int:
    """Erase the user in a process killed after some pieces of work; return how it ended."""
    environment = os.environ | {
        "SLC_OPS_HOME": str(installation.home),
        "SLC_OPS_DEPLOYMENTS": str(installation.deployments_file),
        "MLFLOW_TRACKING_URI": installation.tracking_uri,
        "SLC_OPS_LEDGER_URL": installation.ledger_url,
    }
    command = [sys.executable, "-m", "tests.refresh.dying_erasure", USER, str(pieces)]
    return subprocess.run(command, env=environment, capture_output=True, check=False).returncode


def test_after_a_kill_nothing_is_lost_and_the_next_call_completes_the_erasure(
    installation: Installation,
) -> None:
    assert [killed(installation, pieces) for pieces in (3, 4)] == [-signal.SIGKILL] * 2
    for window in installation.windows("school").glob("2026-*"):
        WindowManifest.read(window).verify()
    assert recorded_erasures(Registry.open(installation).ledger, "school") == []

    (receipt,) = erase(installation, [USER], actor="ann")

    assert files_with(installation.home, USER) == []
    assert receipt.details["versions"] == [1]
    assert len(receipt.details["rows"]) == 6
    assert Registry.open(installation).verify("school") == []
