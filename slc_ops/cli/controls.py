"""``control``: the paper's two controls and their data."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from slc_ops.base.console import emit_json, json_option, print_table, progress, say
from slc_ops.base.extras import require
from slc_ops.cli import Group
from slc_ops.settings.environment import Installation

data_option = click.option(
    "--data",
    type=click.Path(path_type=Path, exists=True),
    help="Folder with the full data; without it the embedded ones are used.",
)
seed_option = click.option(
    "--seed", type=click.IntRange(min=0), default=None, help="One seed only (default: three)."
)


@click.group(cls=Group)
def control() -> None:
    """Run a control: real data with a known outcome of the gate.

    Exit code 0 if the control passes, 1 if an expectation is not met. Nothing is registered.
    """


@control.command("flight-delay")
@data_option
@click.option("--backbone", type=click.Choice(["bbA", "bbB"]), help="One backbone only (default: both).")
@seed_option
@json_option
def flight_delay(data: Path | None, backbone: str | None, seed: int | None) -> None:
    """Positive control: backbones without route parameters leave discrimination stranded.

    Embedded data: New York's departures of 2013. Full protocol: --data with the BTS on-time files (or the
    combined CSVs) of 2018 and 2019; 'slc-ops control download bts' fetches them.
    """
    _run("flight-delay", data, backbone, seed)


@control.command()
@data_option
@click.option("--backbone", type=click.Choice(["mf", "ncf"]), help="One backbone only (default: both).")
@seed_option
@json_option
def movielens(data: Path | None, backbone: str | None, seed: int | None) -> None:
    """Negative control: backbones with film parameters leave nothing to correct.

    Embedded data: MovieLens-100k from the package index. --data accepts GroupLens' ml-100k or ml-1m, as a
    folder or zip; 'slc-ops control download ml-1m' fetches them.
    """
    _run("movielens", data, backbone, seed)


@control.command()
@click.argument("dataset", type=click.Choice(["ml-100k", "ml-1m", "bts"]))
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder to put the files in.")
@click.option("--yes", is_flag=True, help="Accept the terms without a prompt.")
@json_option
def download(dataset: str, out: Path, yes: bool) -> None:
    """Download a control's full data: resumable, with progress, verified by size and checksum."""
    from slc_ops.controls.datasets import DATASETS, fetch

    say(DATASETS[dataset].terms)
    if not yes:
        click.confirm("Accept these terms?", abort=True, err=True)
    with _bar() as (tell, advance):
        files = fetch(dataset, out, tell, advance)
    emit_json({"dataset": dataset, "files": [str(path) for path in files]})
    say(f"{len(files)} files in {out}")


def _run(control: str, data: Path | None, backbone: str | None, seed: int | None) -> None:
    require(f"slc-ops control {control}", "controls", "mlflow", "quality", "report", "sklearn")
    from slc_ops.controls.arms import Request
    from slc_ops.controls.run import run

    with progress(f"running the control {control}"):
        verdict = run(
            Installation.from_environment(),
            control,
            Request(data, backbone, seed),
            tell=lambda step: say(f"  {step}"),
        )
    emit_json(verdict.as_dict())
    rows = [
        (each.arm, each.expected, each.observed, "pass" if each.passed else "FAIL") for each in verdict.checks
    ]
    print_table(f"Control {control}", ("arm", "expected", "observed", ""), rows)
    say(verdict.sentence)
    say(f"Report: {verdict.report}")
    if not verdict.passed:
        raise click.exceptions.Exit(1)


@contextmanager
def _bar() -> Iterator[tuple[Callable[[str], None], Callable[[int, int | None], None]]]:
    """Yield the callbacks (tell, advance); they draw a progress bar if stderr is a terminal."""
    if not sys.stderr.isatty():
        yield (lambda text: say(f"  {text}")), (lambda done, total: None)
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bars:
        task = bars.add_task("", total=None)
        yield (
            lambda text: bars.reset(task, description=text, total=None),
            lambda done, total: bars.update(task, completed=done, total=total),
        )
