"""The files in ``dags/`` parse quickly, and one broken entry breaks one DAG only."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from slc_ops.base.errors import SettingsError
from slc_ops.settings.environment import Installation
from tests.airflow.conftest import ENTRY

DAGS = Path(__file__).parents[2] / "dags"
OURS = ("slc_weekly_refresh.py", "slc_operations.py", "slc_deployments_file.py")

FORMS = {"slc_backfill", "slc_promote", "slc_replay", "slc_retire", "slc_rollback"}
HEAVY = {"pandas", "numpy", "pyarrow", "sklearn", "scipy", "mlflow", "great_expectations", "matplotlib"}


def parse() -> tuple[set[str], dict[str, str]]:
    """DAG ids and import errors of our files, as Airflow's processor finds them."""
    from airflow.dag_processing.dagbag import DagBag

    bags = [DagBag(DAGS / name) for name in OURS]
    return {dag for bag in bags for dag in bag.dags}, {
        f: m for bag in bags for f, m in bag.import_errors.items()
    }


@pytest.mark.slow
def test_parsing_imports_nothing_heavy(installation: Installation) -> None:
    script = "import runpy, sys\nfor file in sys.argv[1:]: runpy.run_path(file)\nprint(*sorted(sys.modules))"
    command = [sys.executable, "-c", script, *map(str, DAGS.glob("*.py"))]

    done = subprocess.run(command, capture_output=True, text=True, check=True)

    loaded = set(done.stdout.split())
    assert "airflow.sdk" in loaded
    assert loaded & HEAVY == set()


def test_every_valid_entry_creates_a_dag(installation: Installation) -> None:
    entries = {"school": ENTRY, "second": {**ENTRY, "gate": "manual"}}
    installation.deployments_file.write_text(yaml.safe_dump({"deployments": entries}))

    dags, errors = parse()

    assert dags == FORMS | {"slc_weekly_refresh__school", "slc_weekly_refresh__second"}
    assert errors == {}


def test_an_entry_with_retention_creates_a_cleanup_dag(installation: Installation) -> None:
    entries = {"school": ENTRY, "second": {**ENTRY, "keep_windows": 3}}
    installation.deployments_file.write_text(yaml.safe_dump({"deployments": entries}))
    for name in entries:
        (installation.refreshes(name) / ".2026-01-05.gone").mkdir(parents=True)
    long_ago = 1_000_000_000.0
    for name in entries:
        os.utime(installation.refreshes(name) / ".2026-01-05.gone", (long_ago, long_ago))

    assert "slc_clean" in parse()[0]
    from slc_ops.airflow.upkeep import clean

    assert clean.function() == {"second": 0}
    assert [path.name for path in installation.refreshes("school").iterdir()] == [".2026-01-05.gone"]
    assert list(installation.refreshes("second").iterdir()) == []


@pytest.mark.parametrize(
    ("text", "line", "rule"),
    [
        ("  broken:\n    source: {kind: lake, path: x}\n    methods: [slc, magic]\n", 6, "magic"),
        ("  broken:\n    source: {kind: lake, path: x}\n    gate: sometimes\n", 6, "auto"),
        ("  Bad/Name:\n    source: {kind: lake, path: x}\n", 4, "not a deployment name"),
    ],
)
def test_a_broken_entry_gives_one_import_error_and_keeps_the_other_dags(
    installation: Installation, text: str, line: int, rule: str
) -> None:
    good = "deployments:\n  school:\n    source: {kind: lake, path: lake/school}\n"
    installation.deployments_file.write_text(good + text)

    dags, errors = parse()

    assert dags == FORMS | {"slc_weekly_refresh__school"}
    (message,) = errors.values()
    assert f"{installation.deployments_file}:{line}: " in message
    assert rule in message


def test_an_invalid_yaml_file_gives_one_import_error(installation: Installation) -> None:
    installation.deployments_file.write_text("deployments: [")

    dags, errors = parse()

    assert dags == FORMS
    (message,) = errors.values()
    assert str(installation.deployments_file) in message


@pytest.mark.parametrize(
    "line",
    [
        "start: 2026-02-30",
        "approval_hours: .inf",
        "approval_hours: .nan",
        "approval_hours: 1e300",
        "schedule: 0 0 31 2 *",
        "schedule: mondays",
        "link_windows: 1000000000000",
        "start: 0001-01-01",
        "end: 9999-12-31",
    ],
)
def test_a_typo_removes_only_its_own_dag(installation: Installation, line: str) -> None:
    entry = "    source: {kind: lake, path: x}\n"
    text = f"deployments:\n  first:\n{entry}  broken:\n{entry}    {line}\n  last:\n{entry}"
    installation.deployments_file.write_text(text)

    dags, errors = parse()

    assert dags == FORMS | {"slc_weekly_refresh__first", "slc_weekly_refresh__last"}
    (message,) = errors.values()
    assert f"{installation.deployments_file}:6: " in message
    assert "deployments.broken" in message


def test_a_dag_rejected_by_airflow_gives_one_import_error_and_keeps_the_others(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Airflow rejects some DAGs only when they are built."""
    import slc_ops.airflow.refresh as built

    whole = built.refresh_tasks

    def refuse(name: str, deployment: object) -> None:
        if name == "broken":
            raise RuntimeError("Airflow does not like it")
        whole(name, deployment)  # type: ignore[arg-type]

    monkeypatch.setattr(built, "refresh_tasks", refuse)
    entries = {"school": ENTRY, "broken": ENTRY}
    installation.deployments_file.write_text(yaml.safe_dump({"deployments": entries}))

    dags, errors = parse()

    assert dags == FORMS | {"slc_weekly_refresh__school"}
    (message,) = errors.values()
    assert "deployments.broken: no DAG can be built of it: Airflow does not like it" in message


def test_a_two_line_file_loads_all_dags_and_reports_a_missing_deployments_file(
    installation: Installation, tmp_path: Path
) -> None:
    from airflow.dag_processing.dagbag import DagBag

    file = tmp_path / "slc.py"
    file.write_text("from slc_ops.airflow import dags\nglobals().update(dags())\n")
    bag = DagBag(file)
    assert set(bag.dags) == FORMS | {"slc_weekly_refresh__school"}
    assert bag.import_errors == {}

    installation.deployments_file.unlink()
    bag = DagBag(file)
    assert set(bag.dags) == set()
    (message,) = bag.import_errors.values()
    line = message.splitlines()[-1]
    assert f"cannot read the deployments file {installation.deployments_file}: No such file" in line
    assert "SLC_OPS_DEPLOYMENTS" in line


def test_a_folder_of_deployments_creates_one_dag_per_entry(
    installation: Installation, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / "deployments"
    folder.mkdir()
    for name in ("first", "second"):
        (folder / f"{name}.yaml").write_text(yaml.safe_dump({"deployments": {name: ENTRY}}))
    (folder / "third.yaml").write_text("deployments: [")
    monkeypatch.setenv("SLC_OPS_DEPLOYMENTS", str(folder))

    dags, errors = parse()

    assert dags == FORMS | {"slc_weekly_refresh__first", "slc_weekly_refresh__second"}
    ((file, message),) = errors.items()
    assert file.endswith("slc_deployments_file.py")
    assert f"{folder / 'third.yaml'}:1: this is not YAML" in message


def test_an_unknown_kind_of_dag_is_named() -> None:
    from slc_ops.airflow import dags

    with pytest.raises(SettingsError, match=r"refreshes, operations, controls; found weekly"):
        dags("weekly")


@pytest.mark.parametrize("found", ["3.2.1", "2.11.0"])
def test_an_outdated_airflow_is_reported_in_one_line(found: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import slc_ops.airflow as package

    monkeypatch.setattr(package, "version", lambda distribution: found)
    monkeypatch.delitem(vars(package), "dags", raising=False)
    with pytest.raises(SettingsError, match=f"needs Airflow 3.3 or newer, this is {found}; upgrade"):
        _ = package.dags


@pytest.mark.slow
def test_a_plugin_registers_once_by_entry_point_and_plugins_folder(
    tmp_path: Path,
) -> None:
    """Airflow runs in its own process, as installed and with the plugins also copied into its folder."""
    script = (
        "from airflow.plugins_manager import _get_plugins\n"
        "plugins, errors = _get_plugins()\n"
        "print(sorted(p.name for p in plugins if p.name.startswith('slc')), sorted(errors.values()))"
    )
    folder = tmp_path / "plugins"
    folder.mkdir()
    variables = os.environ | {"AIRFLOW__CORE__PLUGINS_FOLDER": str(folder)}
    command = [sys.executable, "-c", script]

    plain = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
    (folder / "copied.py").write_text("from slc_ops.airflow.plugins import SlcPage\n")
    twice = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
    variables |= {"AIRFLOW__CORE__PLUGINS_FOLDER": str(DAGS.parent / "plugins")}
    ours = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)

    assert ours.stdout.splitlines()[-1] == "['slc_page'] []"
    assert plain.stdout.splitlines()[-1] == "['slc_page'] []"
    assert twice.stdout.splitlines()[-1] == (
        "['slc_page'] [\"Plugin 'slc_page' already registered, skipping\"]"
    )
