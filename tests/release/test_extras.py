"""A fresh environment for each extra: which modules can be imported, and which are absent."""

import json
import subprocess
from pathlib import Path

import pytest

from slc_ops.base.extras import EXTRAS
from tests.release.environments import clean_environment, install, make_environment, optional

pytestmark = pytest.mark.services
HEAVY = {"airflow", "mlflow", "pandas", "great_expectations", "scipy", "sklearn", "matplotlib", "sqlalchemy"}
MAY_BRING = {
    "mlflow": HEAVY - {"airflow", "great_expectations"},
    "quality": HEAVY - {"airflow", "mlflow", "matplotlib", "sklearn", "sqlalchemy"},
    "report": {"matplotlib", "scipy"},
    "serve": set(),
    "sklearn": {"sklearn", "scipy"},
    "tables": {"sqlalchemy"},
    "warehouse": HEAVY - {"airflow", "great_expectations"},
    "snowflake": HEAVY - {"airflow", "great_expectations"},
    "bigquery": HEAVY - {"airflow", "great_expectations"},
    "controls": HEAVY - {"airflow"},
}
"""Extra → the heavy libraries that come with it; the core has none, an Airflow has them all."""

IMPORT_ALL = """
import importlib, importlib.util, json, pkgutil, sys, slc_ops
failed = {}
for found in pkgutil.walk_packages(slc_ops.__path__, "slc_ops."):
    if ".migrations" in found.name or ".airflow" in found.name or found.name.endswith("__main__"):
        continue  # Alembic runs migrations itself; Airflow has an environment of its own
    try:
        importlib.import_module(found.name)
    except ModuleNotFoundError as error:
        failed[found.name] = error.name
here = [name for name in sys.argv[1].split() if importlib.util.find_spec(name)]
print(json.dumps([failed, here]))
"""


@pytest.mark.parametrize("extra", MAY_BRING)
def test_an_extra_installs_what_its_modules_import_and_nothing_heavy_else(
    extra: str, wheel: Path, tmp_path: Path
) -> None:
    python = make_environment(tmp_path / "venv")
    install(python, f"slc-ops[{extra}] @ {wheel.as_uri()}")
    asked = HEAVY | {module for modules in EXTRAS.values() for module in modules}
    done = subprocess.run(
        [str(python), "-c", IMPORT_ALL, " ".join(sorted(asked))], cwd=tmp_path, env=clean_environment(),
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    failed, here = json.loads(done.stdout)

    brought = {module for each in optional(extra) for module in EXTRAS[each]}
    assert brought <= set(here)
    assert HEAVY & set(here) <= MAY_BRING[extra]
    missing = {name.partition(".")[0] for name in failed.values()}
    assert missing <= {module for modules in EXTRAS.values() for module in modules} - set(here), failed
