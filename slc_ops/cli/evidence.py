"""Commands for evidence: backtest, detectability, paper."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from slc_ops.base.console import emit_json, json_option, json_path, print_table, progress, say
from slc_ops.base.extras import require
from slc_ops.cli import options

if TYPE_CHECKING:
    from slc_ops.evidence.metrics import Metric
    from slc_ops.evidence.results import Backtest
    from slc_ops.evidence.verdict import Verdict
    from slc_ops.settings.deployments import Deployment


@click.command()
@click.option(
    "--input", "sources", type=options.FILE, required=True, multiple=True,
    help="Rows with event_time (Parquet, CSV, Feather); may be repeated.",
)  # fmt: skip
@click.option("--time-bins", type=click.IntRange(2), default=10, help="Equal-count time bins.")
@click.option("--alpha", type=float, default=0.05, help="Level of the Wald test.")
@options.column_map
@json_option
def detectability(sources: tuple[Path, ...], time_bins: int, alpha: float, rename: dict[str, str]) -> None:
    """Report the drift that the data can detect, in total and per item (Proposition 2)."""
    from slc_ops.api.comparing import Detectable
    from slc_ops.evidence.detectability import detectability as report
    from slc_ops.rows.interactions import InteractionLog

    with progress("counting"):
        found = report(InteractionLog.read(list(sources), rename=rename), time_bins=time_bins, alpha=alpha)
    emit_json(found.as_dict(per_item=json_path() is not None))
    print_table("Detectability of drift", ["", "value"], Detectable(found).rows)
    say(f"Temporal tracking is {found.temporal_tracking}: {found.reason}.")


@click.command()
@click.option(
    "--calibration", "calibrations", type=options.FILE, required=True, multiple=True,
    help="Calibration rows (Parquet, CSV, Feather); repeated, with --test, for several pairs.",
)  # fmt: skip
@click.option(
    "--test", "tests", type=options.FILE, required=True, multiple=True,
    help="Later rows for scoring, one file per --calibration, in the same order.",
)  # fmt: skip
@click.option(
    "--history", "histories", type=options.FILE, multiple=True,
    help="Training rows: the time bins of slc_t and naive cover them and the calibration rows. Only their "
    "event_time is read. Once for all pairs, or once per pair.",
)  # fmt: skip
@click.option("--out", type=options.FILE, required=True, help="Directory of the tables and figures.")
@options.prior_var
@click.option("--time-bins", type=click.IntRange(2), default=10, help="Time bins of slc_t and naive.")
@click.option("--regime/--no-regime", default=True, help="Simulate the regime map too.")
@options.column_map
@json_option
def paper(
    calibrations: tuple[Path, ...], tests: tuple[Path, ...], histories: tuple[Path, ...], out: Path,
    prior_var: float, time_bins: int, regime: bool, rename: dict[str, str],
) -> None:  # fmt: skip
    """Run all of the paper's analyses on a pair of files: tables (CSV, Markdown) and figures.

    Several pairs (backbones, seeds) give means and standard deviations, and a directory for each pair.
    """
    require("slc-ops paper", "report")
    from slc_ops.evidence.metrics import headline_metrics
    from slc_ops.methods import FitOptions
    from slc_ops.paper import analyses
    from slc_ops.paper.page import write_paper
    from slc_ops.rows.interactions import InteractionLog, read_history

    if len(calibrations) != len(tests):
        raise click.UsageError(
            f"{len(calibrations)} --calibration and {len(tests)} --test: pass them in pairs"
        )
    if len(histories) not in (0, 1, len(tests)):
        raise click.UsageError(
            f"{len(histories)} --history for {len(tests)} pairs: give none, one, or one each"
        )
    fit_options = FitOptions(prior_var=prior_var, time_bins=time_bins)
    pairs = []
    with progress("analysing"):
        for number, files in enumerate(zip(calibrations, tests, strict=True)):
            history = read_history(histories[min(number, len(histories) - 1)], rename) if histories else None
            first, second = (InteractionLog.read(each, rename=rename) for each in files)
            pairs.append(analyses.analyse(first, second, history=history, options=fit_options))
        tables = pairs[0] if len(pairs) == 1 else analyses.means(pairs)
        if regime:
            tables |= analyses.regime()
        heading = f"The paper's analyses: {_pair(calibrations[0], tests[0])}"
        if len(pairs) > 1:
            heading = f"The paper's analyses: means ± standard deviations of {len(pairs)} pairs"
            for number, found in enumerate(pairs):
                name = _pair(calibrations[number], tests[number])
                write_paper(out / f"pair-{number + 1}", found, f"The paper's analyses: {name}")
        page = write_paper(out, tables, heading)
    single = {} if len(pairs) == 1 else {"pairs": pairs}
    emit_json({**tables, **single})
    metrics = headline_metrics()
    rows = [[row["method"], *(_with_sd(row, metric) for metric in metrics)] for row in tables["ladder"]]
    title = "Every method on the test rows" + (f", {len(pairs)} pairs, mean ± sd" if len(pairs) > 1 else "")
    print_table(title, ["method", *(each.title for each in metrics)], rows)
    say(f"{len(tables)} tables and their figures: {page}")


def _pair(calibration: Path, test: Path) -> str:
    return f"{calibration.name} and {test.name}"


def _with_sd(row: dict[str, Any], metric: "Metric") -> str:
    sd, text = row.get(f"{metric.name}_sd"), metric.text(row[metric.name])
    return text if sd is None else f"{text} ± {metric.text(sd)}"


@click.command(cls=options.CommandOfMethods)
@options.lake
@click.option("--deployment", "name", default="backtest", metavar="D",
              help="A name from the deployments file; with --lake also any other name.")  # fmt: skip
@click.option(
    "--window", "window_text", metavar="START/END", help="The newest window [default: of the lake]."
)
@options.methods()
@options.effects("the deployment's")
@click.option(
    "--link-windows", type=click.IntRange(1), help="Calibration windows [default: of the deployment]."
)
@click.option("--evidence-windows", type=click.IntRange(1), help="Test windows [default: of the deployment].")
@click.option("--champion", type=options.FILE, help="A parameter set to compare with on the newest window.")
@click.option("--out", type=options.FILE, help="Directory for windows, scores and report; a rerun continues.")
@json_option
def backtest(
    lake: Path | None, name: str, window_text: str | None, methods: options.Methods | None,
    effects: tuple[str, ...] | None, link_windows: int | None, evidence_windows: int | None,
    champion: Path | None, out: Path | None,
) -> None:  # fmt: skip
    """Evaluate the methods over past windows: fit on the earlier windows, score on the next.

    The series of windows determines the method; the verdict is that of a refresh. Nothing is registered.
    """
    require("slc-ops backtest", "mlflow", "quality", "report")
    from tempfile import TemporaryDirectory

    from slc_ops.refresh.offline_backtest import backtest_settings, run_backtest

    settings = backtest_settings(
        name, lake, methods=methods, effects=effects, link_windows=link_windows,
        evidence_windows=evidence_windows,
    )  # fmt: skip
    window = None if window_text is None else settings.cadence.parse(window_text)
    with TemporaryDirectory(prefix="slc-backtest-") as temporary, progress("backtesting"):
        directory = Path(temporary) if out is None else out
        result, verdict, report = run_backtest(name, settings, window, directory, champion)
    emit_json({"verdict": verdict.as_dict(), "backtest": result.as_dict()})
    _print_backtest(settings, result, verdict)
    if out is not None:
        say(f"Report: {report}")


def _print_backtest(settings: "Deployment", result: "Backtest", verdict: "Verdict") -> None:
    from slc_ops.evidence.metrics import headline_metrics

    metrics = headline_metrics()
    rows = []
    for fold in result.plan.folds:
        for method in result.methods:
            found = result.scores[fold.key][method].metrics
            numbers = [each.text(None if found is None else found[each.name]) for each in metrics]
            rows.append([str(fold.window), method, *numbers])
    for method, mean in result.means().items():
        numbers = [each.text(mean[each.name]) for each in metrics]
        rows.append(["mean", method, *numbers])
    title = f"Backtest, each method on the {settings.link_windows} windows before"
    print_table(title, ["window", "method", *(each.title for each in metrics)], rows)
    for note in verdict.notes:
        say(f"note: {note}")
    say(verdict.sentence)
