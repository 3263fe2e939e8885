"""Response time of the SLC page: 50 deployments, a year of weeks each, one of them with a million items.

    python benchmarks/plugin_page.py [--deployments 50] [--items 1000000]

Airflow's real API application with a signed token, in this process; the ledger is SQLite. Ends with code 1
when a page takes more than 300 ms of processor time; the first request, which reads tables, is listed
separately.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 300
"""Milliseconds."""


def main() -> None:
    """Fill a temporary home, request each page a few times, print medians."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--deployments", type=int, default=50)
    parser.add_argument("--items", type=int, default=1_000_000)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="slc-page-") as home:
        os.environ |= {
            "AIRFLOW_HOME": f"{home}/airflow",
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__API_AUTH__JWT_SECRET": "x" * 64,
            "AIRFLOW__LOGGING__LOGGING_LEVEL": "WARNING",
            "SLC_OPS_HOME": home,
            "SLC_OPS_LEDGER_URL": f"sqlite:///{home}/ledger.db",
        }
        sys.exit(measure(asked.deployments, asked.items) > LIMIT)


def measure(deployments: int, items: int) -> float:
    """Time the pages; return the milliseconds of the slowest."""
    sys.path.insert(0, str(ROOT))
    from airflow.api_fastapi.app import create_app
    from airflow.utils.db import initdb

    from slc_ops.demo.simulate import simulate
    from slc_ops.settings.environment import Installation
    from tests.plugins import school
    from tests.plugins.conftest import caller, register
    from tests.refresh.school import operate, stop_newest

    initdb()
    installation = Installation.from_environment()
    simulate(installation.home / "made", weeks=7, users=300, items=60, seed=11, start="2026-01-05")
    real = operate(installation.home / "real", installation.home / "made")
    stop_newest(real)
    school.VALIDATED = real.windows("school")
    names = [f"d{k:02d}" for k in range(deployments)]
    register([f"slc_weekly_refresh__{name}" for name in names])
    for name in names:
        for week in range(52):
            version = school.publish(
                installation, name, week, items=items if (name, week) == ("d00", 51) else 0
            )
        school.make_champion(installation, version)
    admin = caller(create_app(), "admin", "admin")
    pages = {
        "overview": "/slc/",
        "items, largest": "/slc/d00",
        "items, page 20": "/slc/d00?page=20",
        "items, by detectability": "/slc/d00?sort=detectability&order=up",
        "items, by name": "/slc/d00?sort=item&order=up",
        "items, search": "/slc/d00?search=99999",
    }
    slowest = 0.0
    for label, path in pages.items():
        taken, busy = [], []
        for _ in range(8):
            start, cpu = time.perf_counter(), time.process_time()
            assert admin.get(path).status_code == 200
            taken.append(1000 * (time.perf_counter() - start))
            busy.append(1000 * (time.process_time() - cpu))
        again, work = statistics.median(taken[1:]), statistics.median(busy[1:])
        slowest = max(slowest, work)
        print(f"{label:<26} first {taken[0]:6.0f} ms, then {again:5.0f} ms ({work:.0f} ms of processor time)")
    return slowest


if __name__ == "__main__":
    main()
