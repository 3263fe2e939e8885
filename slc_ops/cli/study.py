"""``study``: the paper's backbones and tables from a log."""

from dataclasses import replace
from pathlib import Path

import click

from slc_ops.base.console import emit_json, json_option, print_table, say
from slc_ops.base.extras import require
from slc_ops.cli import options
from slc_ops.cli.data import DATASETS


def _seeds(_: click.Context, __: click.Parameter, text: str) -> tuple[int, ...]:
    try:
        seeds = tuple(dict.fromkeys(int(part) for part in text.split(",")))
    except ValueError:
        raise click.BadParameter(
            f"{text!r} is not a list of whole numbers, for example 225,226,227"
        ) from None
    if min(seeds) < 0:
        raise click.BadParameter(f"the seed {min(seeds)} is negative")
    return seeds


@click.command()
@click.argument("source", metavar="LOG", type=options.FILE)
@click.option(
    "--backbone", "names", default="dkt,sakt,dkvmn,akt,lpkt", help="Backbones, separated by commas."
)
@click.option("--seeds", default="225,226,227", callback=_seeds, help="Seeds, separated by commas.")
@click.option("--out", type=options.FILE, required=True, help="Directory of the study.")
@click.option(
    "--choose-epoch", type=click.Choice(["train", "calibration"]), default="train",
    help="Rows that choose the epoch: the last tenth of train, or calibration as the authors do.",
)  # fmt: skip
@click.option("--epochs", type=click.IntRange(min=1), help="Maximum number of epochs [default: by backbone].")
@click.option(
    "--threads", type=click.IntRange(min=1), default=1,
    help="Threads of PyTorch; another number changes the last digits.",
)  # fmt: skip
@click.option(
    "--dataset", type=click.Choice(DATASETS),
    help="Show the paper's figures of this data set [default: the one recorded by slc-ops ingest].",
)  # fmt: skip
@options.column_map
@json_option
def study(
    source: Path, names: str, seeds: tuple[int, ...], out: Path, choose_epoch: str, epochs: int | None,
    threads: int, dataset: str | None, rename: dict[str, str],
) -> None:  # fmt: skip
    """Train the paper's backbones on a log and build its tables from their logits.

    LOG is a directory of 'slc-ops ingest', or a file (Parquet, CSV, Feather) with user_id, item_id,
    event_time, label and optionally group_id (the skill). Each user's rows are split in time: 60 % train,
    20 % calibration, 20 % test. The same command resumes an interrupted study.
    """
    require("slc-ops study", "report", "study")
    from slc_ops.study.page import write_study
    from slc_ops.study.registry import backbones_called
    from slc_ops.study.run import study as run_study
    from slc_ops.study.trainer import Settings

    backbones = [each if epochs is None else replace(each, epochs=epochs) for each in backbones_called(names)]
    settings = Settings(choose_epoch, threads)  # type: ignore[arg-type] # click checked it
    found = run_study(
        source, out, backbones, seeds, settings,
        rename=rename, dataset=dataset, tell=lambda text: say(f"  {text}"),
    )  # fmt: skip
    page = write_study(out, found)
    runs = [
        {**run.training, "backbone": run.backbone, "sizes": run.training["backbone"],
         "methods": {row["method"]: {"auc": row["auc"], "nll": row["nll"]} for row in run.tables["ladder"]}}
        for run in found.runs
    ]  # fmt: skip
    emit_json({"counts": found.counts, "dataset": found.dataset, "runs": runs, "page": str(page)})
    shown = ("base", "platt", "rescal_iso", "slc")
    rows = [
        [f"{run['backbone']}-{run['seed']}", *(f"{run['methods'][name]['auc']:.4f}" for name in shown),
         f"{run['cpu_minutes']:.1f}"]
        for run in runs
    ]  # fmt: skip
    print_table("AUC on the test rows", ["run", *shown, "CPU minutes"], rows)
    say(f"Tables and figures: {page}")
