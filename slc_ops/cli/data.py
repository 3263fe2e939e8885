"""``demo``, ``simulate`` and ``ingest``: simulated and public logs, and a complete refresh on them."""

from pathlib import Path

import click

from slc_ops.base.console import emit_json, json_option, print_table, progress, say
from slc_ops.base.extras import require
from slc_ops.base.text import count, number
from slc_ops.cli import options


@click.command()
@click.option("--out", type=options.FILE, required=True, help="Directory of the lake.")
@click.option("--weeks", type=click.IntRange(min=1), default=12, help="Weeks of logs.")
@click.option("--users", type=click.IntRange(min=1), default=2000, help="Users.")
@click.option("--items", type=click.IntRange(min=1), default=400, help="Items of the first week.")
@click.option("--new-items", type=click.IntRange(min=0), default=10, help="New items per week.")
@click.option("--rows-per-week", type=click.IntRange(min=1), default=12_000, help="Interactions per week.")
@click.option("--seed", type=click.IntRange(min=0), default=7, help="Same seed, same bytes.")
@click.option("--start", default="2026-01-05", help="The first Monday.")
@click.option(
    "--bias-sd", type=click.FloatRange(min=0), default=0.8, help="Spread of the items' biases, in logits."
)
@click.option("--drift-share", type=click.FloatRange(0, 1), default=0.15, help="Share of items that drift.")
@click.option(
    "--label-delay",
    metavar="3d",
    help="Write labels to a separate source, up to this long after their rows (m, h or d).",
)
@json_option
def simulate(out: Path, **settings: object) -> None:
    """Write the log lake of a simulated learning platform.

    The platform's frozen model has a wrong scale and shift and ignores the items' biases; truth.parquet holds
    the true biases for comparison.
    """
    from slc_ops.demo.simulate import simulate as write_lake

    with progress("simulating ..."):
        manifest = write_lake(out, **settings)  # type: ignore[arg-type] # click checked them
    print_table(
        f"simulated lake in {out}",
        ["weeks", "rows", "items", "last window"],
        [[str(manifest[key]) for key in ("weeks", "rows", "items", "last_window")]],
    )
    say(f"The truth per item is in {out / 'truth.parquet'}.")
    emit_json({**manifest, "out": str(out)})


DATASETS = ("assistments2009", "assistments2017", "algebra", "eedi")  # readers are imported lazily


@click.command()
@click.argument("dataset", type=click.Choice(DATASETS))
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=options.FILE)
@click.option("--out", type=options.FILE, required=True, help="Directory of the three files.")
@click.option(
    "--logits",
    type=options.FILE,
    help="Your model's file: event_id and logit (or probability); without it a backbone is trained.",
)
@click.option(
    "--time",
    type=click.Choice(["index", "clock"]),
    default="index",
    help="event_time: the student's interaction index, or the published timestamp read as UTC.",
)
@click.option("--min-rows", type=click.IntRange(min=1), default=5, help="Leave out students with fewer.")
@json_option
def ingest(dataset: str, files: tuple[Path, ...], out: Path, **options: object) -> None:
    """Convert a public data set, as published, to history, calibration and test files.

    FILE is the published file; for algebra the three releases or their directory, for eedi the unpacked data
    directory. Each student's first 60 % become history, the next 20 % calibration, the last 20 % test: three
    files for the options --history, --calibration and --test of slc-ops compare.
    """
    from slc_ops.paper.datasets.ingest import ingest as read_dataset

    with progress(f"reading {dataset} ..."):
        report = read_dataset(dataset, files, out, **options)  # type: ignore[arg-type] # click checked them
    print_table(
        f"{dataset} in {out}",
        ["part", "rows", "students", "items", "label rate"],
        [
            [
                name,
                *(count(report[name][key]) for key in ("rows", "students", "items")),
                number(report[name]["label_rate"], 3),
            ]
            for name in ("history", "calibration", "test")
        ],
    )
    for reason, rows in report["left_out"].items():
        say(f"{count(rows):>12}  {reason}")
    if "logits" in report:
        gaps = report["logits"]
        say(f"{count(gaps['without']):>12}  of {count(gaps['events'])} events without a logit, left out")
        say(f"{count(gaps['unused']):>12}  logits of no event")
    emit_json(report)


@click.command()
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("slc-demo"),
    help="An empty directory, or one of an earlier demo.",
)
@json_option
def demo(out: Path) -> None:
    """Run a complete refresh on simulated logs, without Airflow, in one directory.

    The demo writes twelve weeks of logs with a known bias per item, validates the newest week, compares all
    methods on it, and registers and promotes the best.
    """
    require("slc-ops demo", "mlflow", "quality", "report")
    from slc_ops.demo.home import run_demo
    from slc_ops.refresh.summary import print_refresh, refresh_summary

    home = out.absolute()
    with progress("running the demo"):
        installation, plan = run_demo(home, say)
    emit_json(refresh_summary(installation, plan))
    print_refresh(installation, plan)
    say(f"Next:    SLC_OPS_HOME={home} SLC_OPS_DEPLOYMENTS={installation.deployments_file} slc-ops status")
