"""Take every screenshot of docs/images from a fresh demo: ``make screenshots``.

Four weeks are refreshed (the last one by Airflow), a replay is written, Airflow is started on loopback, and a
headless Chromium opens the pages. ``--look DIR`` takes every page at three widths, light and dark, into a
directory instead, for review; ``--home`` keeps the demo for the next run.
"""

import argparse
import os
import re
import socket
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from slc_ops.demo.home import DEMO, DEMO_START, DEMO_WINDOW, simulate_lake
from slc_ops.demo.run import DEMO_DAG, opened, refresh_demo
from slc_ops.settings.environment import Installation
from tests.plugins.browser import Browser, log_in

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
WIDTHS = (1400, 800, 400)


@dataclass(frozen=True)
class Picture:
    """A page and how to open it; ``inside`` is one of our paths in Airflow's frame."""

    name: str
    width: int
    height: int
    path: str = ""
    inside: str = ""
    dark: bool = False
    below: str = ""
    phone: bool = False
    shows: str = "demo"


PICTURES = (
    Picture("report", 1200, 1925, path="report"),
    Picture("replay", 1200, 1500, path="replay"),
    Picture("slc-overview", 1280, 520, path="/plugin/slc", inside="/slc/"),
    Picture("slc-deployment", 1280, 900, path="/plugin/slc", inside=f"/slc/{DEMO}"),
    Picture("slc-deployment-dark", 1280, 900, path="/plugin/slc", inside=f"/slc/{DEMO}", dark=True),
    Picture("slc-items", 1280, 800, path="/plugin/slc", inside=f"/slc/{DEMO}", below="#items"),
    Picture("slc-phone", 390, 844, path=f"/slc/{DEMO}", phone=True),
    Picture("dag-run", 1600, 900, path="run", shows="promote"),
    Picture("data-docs", 1200, 860, path="validation"),
)
SITE = tuple(Picture(f"site-{name}", 1200, 900, path=f"site/{name}", shows="slc_ops") for name in
             ("index", "concepts", "api", "runbooks", "settings", "performance"))  # fmt: skip
"""Pages of the site (``make docs``): looked at, not kept."""


def make_demo(home: Path) -> None:
    """Four consecutive refreshes and a replay of all weeks."""
    with opened(home) as variables:
        os.environ.update(variables)
        simulate_lake(home, print)
        for window in DEMO_WINDOW.before(3):
            command("refresh", "--deployment", DEMO, "--window", str(window))
        refresh_demo(home, variables)
        out = Installation.from_environment().replays(DEMO) / f"{DEMO_START}_{DEMO_WINDOW.end:%Y-%m-%d}"
        span = ("--from", DEMO_START, "--to", f"{DEMO_WINDOW.end:%Y-%m-%d}")
        command("replay", "--deployment", DEMO, *span, "--out", str(out))


def command(*arguments: str) -> None:
    """Run one of our commands in the demo's environment."""
    program = Path(sys.executable).with_name("slc-ops")
    subprocess.run([str(program), *arguments], check=True, stdout=subprocess.DEVNULL)


@contextmanager
def airflow(home: Path) -> Iterator[tuple[str, str, str]]:
    """``make ui`` on free ports; address, user and password."""
    ports = [str(free_port()) for _ in range(2)]
    started = [sys.executable, "-m", "slc_ops.demo.run", "ui", "--home", str(home)]
    server = subprocess.Popen(
        [*started, "--airflow-port", ports[0], "--mlflow-port", ports[1]], stdout=subprocess.PIPE, text=True
    )
    try:
        said = ""
        while "Ctrl-C" not in said:
            line = server.stdout.readline() if server.stdout else ""
            if not line:
                sys.exit(f"Airflow did not start: {said}")
            said += line
        found = re.search(r"log in as (\S+) with password (\S+)", said)
        if found is None:
            sys.exit(f"Airflow named no login: {said}")
        yield f"http://127.0.0.1:{ports[0]}", found[1], found[2]
    finally:
        server.terminate()
        server.wait(60)


def free_port() -> int:
    """A free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def addresses(home: Path) -> dict[str, str]:
    """Pages by short name: files of the newest refresh, and the run of the DAG."""
    (report,) = home.glob(f"refreshes/{DEMO}/{DEMO_WINDOW.key}/*/report/report.html")
    (replay,) = home.glob(f"replays/{DEMO}/*/replay.html")
    validation = home / "windows" / DEMO / DEMO_WINDOW.key / "validation.html"
    with closing(sqlite3.connect(home / "airflow" / "airflow.db")) as connection:
        ((run,),) = connection.execute("SELECT run_id FROM dag_run WHERE dag_id = ?", (DEMO_DAG,)).fetchall()
    site = ROOT / "var" / "site"
    return {
        **{each.path: (site / f"{each.path.removeprefix('site/')}.html").as_uri() for each in SITE},
        "report": report.as_uri(),
        "replay": replay.as_uri(),
        "validation": validation.as_uri(),
        "run": f"/dags/{DEMO_DAG}/runs/{run}",
    }


def show(tab: Browser, each: Picture, base: str, short: dict[str, str], *, dark: bool) -> None:
    """Open the page of a picture and wait until it is loaded."""
    path = short.get(each.path, each.path)
    tab.dark(dark)
    tab.open(path if path.startswith("file:") else f"{base}{path}")
    page = "document"
    if each.inside:
        frame = "document.querySelector('iframe')"
        tab.until(
            f"{frame} && {frame}.contentDocument.body.innerText.includes('demo')",
            "our page in Airflow's frame",
        )
        tab.run(f"{frame}.src = '{each.inside}'")
        page = f"{frame}.contentDocument"
        tab.until(f"{page}.location.pathname === '{each.inside}'", each.inside)
    there = f"{page}.readyState === 'complete' && {page}.body.innerText.includes('{each.shows}')"
    tab.until(there, each.name)
    if each in SITE:  # Airflow remembers the colour scheme
        tab.run("localStorage.clear()")
        tab.call("Page.reload")
        tab.settle()
        tab.until(there, each.name)
    if each.below:
        tab.run(f"{page}.querySelector('{each.below}').scrollIntoView()")
    tab.settle()


def main() -> None:
    asked = argparse.ArgumentParser(description="Every screenshot of docs/images, from a demo made for it.")
    asked.add_argument("--home", type=Path, help="the demo, made where it is not there yet")
    asked.add_argument("--look", type=Path, help="take every page at 1400, 800 and 400 px, light and dark")
    asked.add_argument("--only", default="", help="these pictures alone, separated by commas")
    options = asked.parse_args()
    only = [name for name in options.only.split(",") if name]
    with tempfile.TemporaryDirectory(prefix="slc-screenshots-") as scratch:
        home = (options.home or Path(scratch) / "home").absolute()
        if not list(home.glob(f"replays/{DEMO}/*/replay.html")):
            make_demo(home)
        known = PICTURES if options.look is None else (*PICTURES, *SITE)
        chosen = [each for each in known if not only or each.name in only]
        short = addresses(home)
        files = all(short.get(each.path, "").startswith("file:") for each in chosen)
        with nullcontext() if files else airflow(home) as server, Browser() as tab:
            base = ""
            if server is not None:
                base, user, password = server
                tab.size(1280, 800)
                log_in(tab, base, user, password)
            for each in chosen:
                if options.look is None:
                    tab.size(each.width, each.height, phone=each.phone)
                    show(tab, each, base, short, dark=each.dark)
                    tab.picture(IMAGES / f"{each.name}.png")
                    print(IMAGES / f"{each.name}.png")
                    continue
                options.look.mkdir(parents=True, exist_ok=True)
                for width in WIDTHS:
                    for dark in (False, True):
                        tab.size(width, 1400, phone=False)
                        show(tab, each, base, short, dark=dark)
                        tab.picture(options.look / f"{each.name}-{width}{'-dark' if dark else ''}.png")
            for said in tab.complaints:
                print(f"the browser says: {said}")


if __name__ == "__main__":
    main()
