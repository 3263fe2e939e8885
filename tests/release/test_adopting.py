"""slc-ops in an existing Airflow: a plain installation, the wheel, ``docs/airflow.md`` command by command."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest
from packaging.requirements import Requirement

from tests.pages import steps
from tests.release.conftest import PlainAirflow
from tests.release.environments import PLAIN_AIRFLOW, ROOT, UV, clean_environment

pytestmark = pytest.mark.services
PAGE = ROOT / "docs" / "airflow.md"
MINE = "from airflow.sdk import DAG\n\nwith DAG('mine'):\n    pass\n"
TWO_LINES = "from slc_ops.airflow import dags\nglobals().update(dags())\n"


class Airflow:
    """A home of the installation, with a shell."""

    def __init__(self, home: Path, bin: Path) -> None:
        self.home = home
        (home / "dags").mkdir(parents=True)
        self.variables = clean_environment() | {
            "PATH": f"{bin}:/usr/local/bin:/usr/bin:/bin",
            "AIRFLOW_HOME": str(home),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": "admin:admin",
            "AIRFLOW__LOGGING__LOGGING_LEVEL": "WARNING",
            "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
            "COLUMNS": "300",
            "DO_NOT_TRACK": "true",
            "GX_ANALYTICS_ENABLED": "false",
        }

    def shell(self, text: str, **variables: str) -> str:
        """The output of a shell for these lines; fails if one of them fails."""
        done = subprocess.run(
            ["bash", "-ec", text], cwd=self.home, env=self.variables | variables,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{text}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        return done.stdout


@pytest.fixture(scope="module")
def adopted(plain_airflow: PlainAirflow, tmp_path_factory: pytest.TempPathFactory) -> Airflow:
    """The state after all commands of the page."""
    airflow = Airflow(tmp_path_factory.mktemp("adopting") / "home", plain_airflow.python.parent)
    where = airflow.shell("python -c 'import slc_ops; print(slc_ops.__file__)'")
    assert where.startswith(str(plain_airflow.python.parents[1]))
    airflow.shell("airflow db migrate")
    said = set()
    kept = ":"
    for step in steps("docs/airflow.md"):
        command = step.text
        if command.startswith("pip install"):
            continue  # done above, from the wheel
        answer = airflow.shell(f"{kept}\n{command}")
        if command.startswith("export"):
            kept = command
        step.check(answer)
        said.add(command.split("\n")[0])
    assert {"airflow providers list --output plain", "slc-ops status"} <= said
    airflow.variables |= {
        "SLC_OPS_HOME": str(airflow.home / "slc"),
        "SLC_OPS_DEPLOYMENTS": str(airflow.home / "deployments"),
    }
    return airflow


def moved(before: dict[str, str], after: dict[str, str]) -> dict[str, tuple[str, str | None]]:
    return {name: (old, after.get(name)) for name, old in before.items() if after.get(name) != old}


def test_installing_it_changes_no_version_of_an_airflow_with_mlflow(plain_airflow: PlainAirflow) -> None:
    assert moved(plain_airflow.with_mlflow, plain_airflow.with_us) == {}
    assert "slc-ops" in plain_airflow.with_us


def test_the_page_lists_versions_that_mlflow_changes(plain_airflow: PlainAirflow) -> None:
    names = set(moved(plain_airflow.alone, plain_airflow.with_mlflow))
    required = r"MLflow \(even its client alone\) requires\s(.*?)\sIf your"
    (said,) = re.findall(required, PAGE.read_text(), re.DOTALL)
    assert names <= set(re.findall(r"`([\w-]+)`", said))


@pytest.mark.skipif(UV is None, reason="uv resolves without installing")
def test_airflows_constraints_without_the_two_lines_on_the_page_are_satisfiable(
    tmp_path: Path,
) -> None:
    """The full constraints conflict with MLflow; the page says which lines to remove."""
    pins = PLAIN_AIRFLOW.read_text().splitlines()
    (taken_out,) = re.findall(r"grep -vE '\^\(([\w|-]+)\)=='", PAGE.read_text())
    lines = [f"{name}==" for name in taken_out.split("|")]
    assert len(lines) == 2
    kept = [pin for pin in pins if not pin.startswith(tuple(lines))]
    resolved = {}
    for name, constraints in (("whole", pins), ("without", kept)):
        (tmp_path / name).write_text("\n".join(constraints))
        resolved[name] = subprocess.run(
            [str(UV), "pip", "compile", "--quiet", "--no-annotate", "--no-header", "--extra", "airflow",
             "--python", sys.executable, "--constraint", str(tmp_path / name), "pyproject.toml"],
            cwd=ROOT, env=clean_environment(), capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert resolved["whole"].returncode != 0
    assert "mlflow" in resolved["whole"].stderr
    assert resolved["without"].returncode == 0, resolved["without"].stderr[-2000:]
    found = dict(line.split("==") for line in resolved["without"].stdout.split() if "==" in line)
    pinned = [Requirement(pin) for pin in kept if "==" in pin]
    here = [each for each in pinned if each.marker is None or each.marker.evaluate()]
    before = {each.name: str(each.specifier).removeprefix("==") for each in here}
    assert found["mlflow"]
    assert {name: found[name] for name in before if name in found} == {
        name: version for name, version in before.items() if name in found
    }


def test_every_command_prints_the_output_on_the_page(adopted: Airflow) -> None:
    assert list((adopted.home / "slc").glob("refreshes/school/*/*/report/report.html"))


def test_the_page_slc_of_the_installed_package_answers_over_http_and_only_to_users(adopted: Airflow) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    adopted.shell("airflow dags reserialize")  # as the DAG processor does
    with (adopted.home / "api-server.log").open("wb") as log:
        server = subprocess.Popen(
            ["airflow", "api-server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"],
            cwd=adopted.home, env=adopted.variables | {"AIRFLOW__API__BASE_URL": address},
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
        try:
            wait_for(f"{address}/api/v2/monitor/health", server)
            stranger = httpx.get(f"{address}/slc/", headers={"Accept": "text/html"})
            (password,) = json.loads(
                (adopted.home / "simple_auth_manager_passwords.json.generated").read_text()
            ).values()
            login = {"username": "admin", "password": password}
            token = httpx.post(f"{address}/auth/token", json=login).json()["access_token"]
            known = {"Authorization": f"Bearer {token}"}
            page = httpx.get(f"{address}/slc/", headers=known, timeout=60)
            views = httpx.get(f"{address}/api/v2/plugins", headers=known, timeout=60).json()["plugins"]
        finally:
            os.killpg(server.pid, signal.SIGTERM)
            server.wait(30)
    assert stranger.status_code in {302, 303, 307, 401}
    assert "school" not in stranger.text
    assert page.status_code == 200
    assert "school" in page.text
    assert "promote" in page.text
    assert "slc_page" in {view["name"] for view in views}


def wait_for(url: str, server: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + 120
    while server.poll() is None and time.monotonic() < deadline:
        try:
            if httpx.get(url, timeout=5).is_success:
                return
        except httpx.HTTPError:
            time.sleep(0.3)
    raise AssertionError(f"{url} did not answer; the server ended with {server.poll()}")


@pytest.fixture
def beside_other_dag(plain_airflow: PlainAirflow, tmp_path: Path) -> Airflow:
    """An unrelated DAG beside ours."""
    airflow = Airflow(tmp_path / "home", plain_airflow.python.parent)
    (airflow.home / "dags" / "mine.py").write_text(MINE)
    (airflow.home / "dags" / "slc.py").write_text(TWO_LINES)
    return airflow


def listed(airflow: Airflow, **variables: str) -> tuple[set[str], list[str]]:
    """The DAGs of the folder, and the last line of each import error."""
    script = (
        "import json\n"
        "from airflow.dag_processing.dagbag import DagBag\n"
        "bag = DagBag()\n"
        "said = [error.strip().splitlines()[-1] for error in bag.import_errors.values()]\n"
        "print(json.dumps([sorted(bag.dag_ids), said]))"
    )
    dags, errors = json.loads(
        airflow.shell('python -c "$SCRIPT"', SCRIPT=script, **variables).splitlines()[-1]
    )
    return set(dags), errors


def test_a_missing_deployments_file_gives_one_line_and_keeps_other_dags(beside_other_dag: Airflow) -> None:
    missing = beside_other_dag.home / "nowhere.yaml"
    dags, (error,) = listed(beside_other_dag, SLC_OPS_DEPLOYMENTS=str(missing))
    assert dags == {"mine"}
    assert error.startswith(f"slc_ops.base.errors.SettingsError: cannot read the deployments file {missing}")


def test_an_outdated_airflow_gives_one_line_and_keeps_other_dags(beside_other_dag: Airflow) -> None:
    older = beside_other_dag.home / "older" / "apache_airflow_core-3.2.1.dist-info"
    older.mkdir(parents=True)
    (older / "METADATA").write_text("Metadata-Version: 2.1\nName: apache-airflow-core\nVersion: 3.2.1\n")
    dags, (error,) = listed(beside_other_dag, PYTHONPATH=str(older.parent))
    assert dags == {"mine"}
    assert error == (
        "slc_ops.base.errors.SettingsError: slc_ops needs Airflow 3.3 or newer, this is 3.2.1; "
        "upgrade Airflow first"
    )


def test_a_plugin_that_is_also_in_the_folder_is_loaded_once(beside_other_dag: Airflow) -> None:
    (beside_other_dag.home / "plugins").mkdir()
    (beside_other_dag.home / "plugins" / "copied.py").write_text(
        "from slc_ops.airflow.plugins import SlcPage\n"
    )
    plugins = beside_other_dag.shell("airflow plugins --output json 2>errors")
    assert [p["name"] for p in json.loads(plugins) if p["name"].startswith("slc")] == ["slc_page"]


def test_a_missing_extra_is_named_in_one_line_and_other_dags_remain(beside_other_dag: Airflow) -> None:
    """Two libraries are hidden, as in an Airflow with the core only."""
    hidden = beside_other_dag.home / "hidden"
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text(
        "import sys\nsys.modules['great_expectations'] = sys.modules['mlflow'] = None\n"
    )
    dags, (error,) = listed(beside_other_dag, PYTHONPATH=str(hidden))
    assert dags == {"mine"}
    assert error == (
        "slc_ops.base.extras.MissingExtra: a DAG file of slc_ops needs more "
        "(no mlflow, no great_expectations); run: pip install 'slc-ops[mlflow,quality]'"
    )
