"""Files that ``clean`` removes, and files that it keeps."""

import os
import shutil
import subprocess
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from slc_ops.base.errors import SettingsError, StorageError
from slc_ops.base.window import Window
from slc_ops.cli import app
from slc_ops.intake.manifest import WindowManifest
from slc_ops.refresh import retention
from slc_ops.refresh.files import RefreshFiles
from slc_ops.refresh.observed import step
from slc_ops.refresh.plan import PlannedWindow, make_plan
from slc_ops.refresh.retention import removable, remove
from slc_ops.refresh.versions import Registered, record_version
from slc_ops.registry import Version
from slc_ops.registry.ledger import Ledger
from slc_ops.settings.environment import Installation
from tests.registry.factory import installation_in

FIRST = Window.parse("2025-01-06/2025-01-13")
WEEKS = [Window(FIRST.start + k * timedelta(7), FIRST.end + k * timedelta(7)) for k in range(30)]
SIZE = 10_000


def settle(path: Path) -> None:
    """Set all file times to a week ago."""
    ago = time.time() - 7 * 86_400
    for each in [*path.rglob("*"), path]:
        os.utime(each, (ago, ago))


@pytest.fixture
def installation(thirty_weeks: Path, tmp_path: Path) -> Installation:
    """A copy with the same hard links and times."""
    subprocess.run(["cp", "--archive", f"{thirty_weeks}/.", str(tmp_path)], check=True)
    return installation_in(tmp_path)


@pytest.fixture(scope="module")
def thirty_weeks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with thirty weeks of windows and refreshes; version k is of week k."""
    home = tmp_path_factory.mktemp("thirty")
    installation = installation_in(home)
    entry = {
        "source": {"kind": "lake", "path": "lake"},
        "methods": ["platt", "slc"],
        "evidence_windows": 2,
        "link_windows": 2,
        "offset_windows": 2,
        "keep_windows": 5,
        "keep_refreshes": 3,
    }
    installation.deployments_file.write_text(yaml.safe_dump({"deployments": {"demo": entry}}))
    ledger, deployment = Ledger(installation.ledger_url), installation.deployment("demo")
    for number, week in enumerate(WEEKS, start=1):
        log = installation.windows("demo") / week.key / "log.parquet"
        log.parent.mkdir(parents=True)
        log.write_bytes(b"x" * SIZE)
        WindowManifest(1, "d", log, week, {}, {}, "f").write()
        rows = PlannedWindow(week, log, "d", {}, "k")
        plan = make_plan("demo", deployment, week, [rows], [], installation.refreshes("demo"), lambda _: "d")
        assert plan is not None
        record_version(plan.files, Registered(number, "decided", "slc", "parameters", f"r{number}", "v"))
        run_step(installation, week, "publish")
        ledger.record(
            Version("demo", number, "slc", week, "promote", {}, f"r{number}", f"k{number}", datetime.now(UTC))
        )
    for number in (2, 4):
        champion = ledger.version("demo", number)
        ledger.advance(ledger.head("demo"), champion, kind="promotion", actor="ann", reason="good")
    settle(home / "windows")
    settle(home / "refreshes")
    return home


def run_step(installation: Installation, week: Window, name: str) -> None:
    """Store the record of a step that ran now."""
    with step(name, "demo", week, installation.refreshes("demo") / week.key):
        pass


def windows(installation: Installation) -> list[str]:
    return sorted(path.parent.name for path in installation.windows("demo").glob("[!.]*/manifest.json"))


def refreshes(installation: Installation) -> list[str]:
    return sorted(
        path.parent.parent.name for path in installation.refreshes("demo").glob("[!.]*/[!.]*/plan.json")
    )


def test_files_needed_by_the_next_refresh_or_a_rollback_are_kept(installation: Installation) -> None:
    remove(removable(installation, "demo"))
    # four calibration windows and twelve baseline windows, although the limit is five
    assert windows(installation) == [week.key for week in WEEKS[-16:]]
    # the newest three; the champion (version 4) and the previous one (version 2)
    assert refreshes(installation) == [WEEKS[k].key for k in (1, 3, 27, 28, 29)]
    assert not (installation.refreshes("demo") / WEEKS[0].key).exists()
    assert removable(installation, "demo").paths == []


def test_the_refresh_that_renewed_the_champion_is_kept(installation: Installation) -> None:
    """A champion registered beside a held change is in use like any other."""
    ledger, week = Ledger(installation.ledger_url), WEEKS[5]
    renewed = Version("demo", 99, "slc", week, "promote", {}, "r99", "k99", datetime.now(UTC))
    ledger.record(renewed)
    ledger.advance(ledger.head("demo"), renewed, kind="renewal", actor="refresh", reason="newer")
    (plan,) = (installation.refreshes("demo") / week.key).glob("*/plan.json")
    record_version(
        RefreshFiles(plan.parent), Registered(99, "renewal", "slc", "renewed-parameters", "r99", "v")
    )
    settle(installation.refreshes("demo"))

    remove(removable(installation, "demo"))

    assert week.key in refreshes(installation)


def test_the_reported_bytes_are_those_freed_on_disk(installation: Installation) -> None:
    found, before = removable(installation, "demo"), used(installation)
    said = found.bytes  # the rows of versions 2 and 4 have a hard link in a kept refresh
    records = steps_of(installation)
    remove(found)
    # the records of a week's steps are removed with its last refresh
    assert before - used(installation) == said + records - steps_of(installation) > said


def steps_of(installation: Installation) -> int:
    return sum(path.stat().st_size for path in installation.refreshes("demo").glob("*/steps/*"))


def used(installation: Installation) -> int:
    files = [path.stat() for path in installation.home.rglob("*") if path.is_file()]
    return sum({(each.st_dev, each.st_ino): each.st_size for each in files}.values())


def test_a_possibly_running_refresh_is_kept_with_its_windows(installation: Installation) -> None:
    run_step(installation, WEEKS[7], "validate")
    remove(removable(installation, "demo"))
    assert WEEKS[7].key in refreshes(installation)
    assert WEEKS[7].key in windows(installation)


def test_a_dry_run_removes_nothing_and_reports_the_same(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLC_OPS_HOME", str(installation.home))
    monkeypatch.setenv("SLC_OPS_DEPLOYMENTS", str(installation.deployments_file))
    dry = CliRunner().invoke(app, ["clean", "--deployment", "demo", "--dry-run"])
    assert dry.exit_code == 0, dry.output
    assert len(windows(installation)) == 30
    assert "39 directories, would give back" in dry.output
    wet = CliRunner().invoke(app, ["clean", "--deployment", "demo"])
    assert wet.exit_code == 0, wet.exception
    assert wet.output.splitlines()[-1] == dry.output.splitlines()[-1].replace("would give back", "gave back")
    again = CliRunner().invoke(app, ["clean", "--deployment", "demo"])
    assert again.output == "nothing to clean\n"


def test_after_a_kill_windows_are_complete_and_the_next_call_finishes(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, left = shutil.rmtree, [5]

    def killed(path: Path) -> None:
        left[0] -= 1
        if not left[0]:
            (path / "log.parquet").unlink()
            raise KeyboardInterrupt
        real(path)

    monkeypatch.setattr(retention.shutil, "rmtree", killed)
    with pytest.raises(KeyboardInterrupt):
        remove(removable(installation, "demo"))
    monkeypatch.undo()
    assert all(
        (installation.windows("demo") / name / "log.parquet").exists() for name in windows(installation)
    )
    remove(removable(installation, "demo"))
    assert removable(installation, "demo").paths == []
    assert not list(installation.home.rglob(".*gone*"))


@pytest.mark.slow
def test_a_disk_error_is_typed_and_leaves_no_partial_directory(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(source: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(retention.os, "replace", refuses)
    with pytest.raises(StorageError, match="No space left"):
        remove(removable(installation, "demo"))
    monkeypatch.undo()
    assert len(windows(installation)) == 30


def test_an_unknown_deployment_is_refused(installation: Installation) -> None:
    with pytest.raises(SettingsError, match="no deployment 'other'"):
        removable(installation, "other")


def test_a_dry_run_creates_no_ledger(installation: Installation) -> None:
    for path in installation.home.glob("ledger.db*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    removable(installation, "demo")
    assert not (installation.home / "ledger.db").exists()
