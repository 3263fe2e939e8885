"""Installed size and import time of the core and each extra: a section of docs/performance.md.

Arguments select extras; the other rows of the page are kept.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import bench_page

from tests.release.environments import (
    ROOT,
    UV,
    build,
    clean_environment,
    install,
    installed_megabytes,
    make_environment,
    versions,
)

EXTRAS = (
    "",
    "report",
    "quality",
    "sklearn",
    "tables",
    "mlflow",
    "warehouse",
    "snowflake",
    "bigquery",
    "controls",
    "airflow",
    "production",
    "all",
)
HEAVY = ("airflow", "mlflow", "pandas", "great_expectations", "scipy", "sklearn", "matplotlib")
SERVE = "from slc_ops.serving import Corrector"
HELP = "import sys; sys.argv = ['slc-ops', '--help']; from slc_ops.cli import main; main()"


def measure(wheel: Path, extra: str, directory: Path) -> list[str]:
    """One row of the table. The second of two installations is timed: the first one fills the cache."""
    for name in ("first", "second"):
        python = make_environment(directory / name)
        begun = time.monotonic()
        install(python, f"slc-ops[{extra}] @ {wheel.as_uri()}" if extra else wheel)
        seconds = time.monotonic() - begun
    find = (
        f"import importlib.util, json; print(json.dumps([n for n in {HEAVY} if importlib.util.find_spec(n)]))"
    )
    here = json.loads(run(python, find))
    return [
        f"`{extra}`" if extra else "core",
        str(len(versions(python)) - 1),
        f"{installed_megabytes(python):,.0f}",
        f"{seconds:.1f}",
        f"{cpu(python, SERVE):.2f}",
        f"{cpu(python, HELP):.2f}",
        ", ".join(here) or "none",
    ]


def run(python: Path, script: str) -> str:
    command = [str(python), "-c", script]
    done = subprocess.run(command, env=clean_environment(), capture_output=True, text=True, check=True)
    return done.stdout


def cpu(python: Path, script: str) -> float:
    """CPU seconds of such a process, including Python's start: the best of five after one warm-up."""
    timed = (
        "import resource, subprocess, sys\n"
        "subprocess.run([sys.executable, '-c', sys.argv[1]], check=True, stdout=subprocess.DEVNULL)\n"
        "used = resource.getrusage(resource.RUSAGE_CHILDREN)\n"
        "print(used.ru_utime + used.ru_stime)"
    )
    command = [str(python), "-c", timed, script]
    found = [
        float(
            subprocess.run(
                command, env=clean_environment(), capture_output=True, text=True, check=True
            ).stdout
        )
        for _ in range(6)
    ]
    return min(found[1:])


def section(rows: list[list[str]]) -> str:
    """The table with its text."""
    head = [
        "",
        "packages",
        "MB",
        "install, s",
        "`Corrector`, CPU s",
        "`--help`, CPU s",
        "heavy libraries",
    ]
    lines = ["| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows)]
    core = rows[0]
    met = {True: "met", False: "**missed**"}
    words = (
        "`make sizes` writes this section: a new environment from the wheel for the core and each extra, in\n"
        "the versions of the lock; megabytes without bytecode, wall-clock seconds of an installation by uv\n"
        "from a warm cache, CPU seconds of a process that imports\n"
        "`slc_ops.serving.Corrector` or prints the help, Python's start included."
    )
    bars = ", ".join(
        f"{found} (bar {bar}: {met[float(found.split()[0].replace(',', '')) <= bar]})"
        for found, bar in (
            (f"{core[2]} MB", 330),
            (f"{core[3]} s to install", 10),
            (f"{core[4]} s to import", 0.5),
        )
    )
    return f"{bench_page.INSTALLED}\n\n{words}\n\n" + "\n".join(lines) + f"\n\nThe core: {bars}.\n"


def known_rows(page: str) -> dict[str, list[str]]:
    """The rows that the page has, by their first cell."""
    lines = bench_page.section(page, bench_page.INSTALLED).splitlines()
    rows = [line.strip("| ").split(" | ") for line in lines if line.startswith(("| core", "| `"))]
    return {row[0]: row for row in rows}


def with_section(page: str, text: str) -> str:
    """The page with the section replaced, or appended if it had none."""
    known = bench_page.section(page, bench_page.INSTALLED)
    return page.replace(known, text.rstrip("\n")) if known else page.rstrip("\n") + "\n\n" + text


def main() -> None:
    if not UV:
        sys.exit("make sizes needs uv")
    page = ROOT / "docs" / "performance.md"
    asked = sys.argv[1:] or EXTRAS
    if unknown := set(asked) - set(EXTRAS):
        sys.exit(f"no extra {', '.join(sorted(unknown))}; there are {', '.join(filter(None, EXTRAS))}")
    known = known_rows(page.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as scratch:
        build(Path(scratch) / "dist")
        (wheel,) = (Path(scratch) / "dist").glob("*.whl")
        for extra in asked:
            with tempfile.TemporaryDirectory() as directory:
                row = measure(wheel, extra, Path(directory))
            known[row[0]] = row
            print("  ".join(row), flush=True)
    names = [f"`{extra}`" if extra else "core" for extra in EXTRAS]
    text = section([known[name] for name in names if name in known])
    page.write_text(with_section(page.read_text(encoding="utf-8"), text), encoding="utf-8")


if __name__ == "__main__":
    main()
