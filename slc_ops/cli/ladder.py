"""Commands for the correction methods: fit, apply, compare, sweep."""

from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import click

from slc_ops.base.console import emit_json, json_option, print_lines, print_table, progress, say
from slc_ops.base.text import count, number
from slc_ops.cli import options

if TYPE_CHECKING:
    from slc_ops.methods import FitOptions
    from slc_ops.rows.interactions import InteractionLog


def _numbers(_: click.Context, __: click.Parameter, text: str | None) -> tuple[float, ...] | None:
    if text is None:
        return None
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a list of numbers, for example 0.1,1,10") from None


calibration_option = click.option(
    "--calibration", type=options.FILE, required=True, help="Calibration rows (Parquet, CSV, Feather)."
)
test_option = click.option("--test", type=options.FILE, required=True, help="Later rows for scoring.")
bins_option = click.option("--time-bins", type=int, default=10, help="Time bins of methods by item and time.")
history_option = click.option(
    "--history", type=options.FILE, help="Earlier rows for the time bins (only event_time is read)."
)
blocks_option = options.effects("item,slope,group")
threads_option = click.option(
    "--threads", type=int, help="Threads [default: all cores]; never changes a result."
)


@click.command(cls=options.CommandOfMethods)
@click.option(
    "--input", "source", type=options.FILE, required=True, help="Calibration rows (Parquet, CSV, Feather)."
)
@click.option(
    "--method", required=True, metavar="METHOD", callback=options.known_method,
    help="One of the methods below.",
)  # fmt: skip
@click.option(
    "--out",
    type=options.FILE,
    required=True,
    help="Directory of the parameter set; an existing one is replaced.",
)
@options.prior_var
@bins_option
@blocks_option
@history_option
@threads_option
@options.column_map
@json_option
def fit(
    source: Path, method: str, out: Path, prior_var: float, time_bins: int, effects: tuple[str, ...] | None,
    history: Path | None, threads: int | None, rename: dict[str, str],
) -> None:  # fmt: skip
    """Fit one method and write its parameter set.

    The directory holds params.json, item.parquet and golden.json: plain files, verified on every read.
    """
    from slc_ops.methods.fitting.calibration import Calibration
    from slc_ops.methods.origin import fit_with_origin
    from slc_ops.rows.interactions import read_history

    fit_options = _options(prior_var, time_bins, threads, effects)
    with progress(f"fitting {method} ..."):
        log = _read(source, rename, times=True)  # the digest covers the times
        earlier = None if history is None else read_history(history, rename)
        fitted = fit_with_origin(method, Calibration(log, earlier, fit_options))
        fitted.write(out)
    answer = {
        "method": method, "out": str(out), "n_rows": fitted.n_rows, "n_items": fitted.n_items,
        "link": fitted.affine(), "prior_var": fitted.prior_var, "warnings": list(fitted.warnings),
    }  # fmt: skip
    emit_json(answer)
    link = fitted.affine() or {}
    print_table(
        f"{method} fitted to {source}",
        ["method", "rows", "items", "a", "b0"],
        [
            [
                method,
                count(fitted.n_rows),
                count(fitted.n_items),
                number(link.get("a")),
                number(link.get("b0")),
            ]
        ],
    )
    _warn(fitted.warnings)
    say(f"Parameters are in {out}. Next: slc-ops apply --params {out} --input FILE --output FILE")


@click.command()
@options.params
@click.option(
    "--input", "source", type=options.FILE, required=True, help="Rows to correct (Parquet, CSV, Feather)."
)
@click.option("--output", type=options.FILE, required=True, help="Output file (Parquet, CSV, Feather).")
@click.option(
    "--keep-formulas", is_flag=True, help="Write text that starts with = + - or @ to CSV unchanged."
)
@options.column_map
@json_option
def apply(params: str, source: Path, output: Path, keep_formulas: bool, rename: dict[str, str]) -> None:
    """Add the columns p_base and p_corrected to a file.

    All other columns are kept. Rows are streamed, and the output appears only when it is complete.

    In CSV, text that a spreadsheet would evaluate as a formula (it begins with = + - or @ and is not a
    number) gets a leading apostrophe.
    """
    from slc_ops.cli.parameter_sets import read_set
    from slc_ops.parameters.applying import apply_file

    with progress("correcting ..."):
        parameters = read_set(params).parameters
        rows = apply_file(parameters, source, output, rename, formulas=keep_formulas)
    emit_json({"rows": rows, "method": parameters.method, "output": str(output)})
    say(f"{count(rows)} rows corrected with {parameters.method}: {output}")


@click.command(cls=options.CommandOfMethods)
@calibration_option
@test_option
@history_option
@options.methods("all")
@options.prior_var
@bins_option
@blocks_option
@threads_option
@click.option("--strict", is_flag=True, help="Refuse an unfair pair of files instead of warning.")
@options.column_map
@json_option
def compare(
    calibration: Path, test: Path, history: Path | None, methods: options.Methods, prior_var: float,
    time_bins: int, effects: tuple[str, ...] | None, threads: int | None, strict: bool,
    rename: dict[str, str],
) -> None:  # fmt: skip
    """Fit methods on one file and score them on a later one.

    AUC measures the ranking (higher is better), NLL the probabilities (lower is better). A strictly
    increasing map of the score, such as platt or temperature, cannot change AUC; methods that use the item
    can. Differences are from platt on the same rows; their 95 % intervals resample users (rows without
    user_id). Rows with a group_id give a table by group: the method with the lowest NLL minus platt; --json
    has all methods.
    """
    from slc_ops.api.comparing import comparison_tables
    from slc_ops.evidence.compare import compare as compare_methods
    from slc_ops.rows.interactions import read_history

    fit_options = _options(prior_var, time_bins, threads, effects)
    with progress("comparing ..."):
        earlier = None if history is None else read_history(history, rename)
        found = compare_methods(
            _read(calibration, rename), _read(test, rename),
            methods=None if methods == "all" else methods, history=earlier, options=fit_options,
            strict=strict,
        )  # fmt: skip
    emit_json(found.as_dict())
    for table in comparison_tables(found):
        print_table(*table)
    if found.ranking:
        print_lines([found.ranking])
    _warn(found.warnings)
    for name, scored in found.methods.items():
        _warn(scored.parameters.warnings, f"{name}: ")


@click.command(cls=options.CommandOfMethods)
@click.argument("what", type=click.Choice(["prior-variance", "calibration-fraction"]))
@calibration_option
@test_option
@click.option(
    "--values", callback=_numbers, help="Values to try, separated by commas [default: the paper's]."
)
@click.option(
    "--method", default="slc", metavar="METHOD", callback=options.known_method,
    help="The method to vary.",
)  # fmt: skip
@click.option(
    "--constant-backbone", is_flag=True,
    help="Replace every logit by that of the calibration rows' mean label, as the paper does for its table.",
)  # fmt: skip
@options.prior_var
@threads_option
@options.column_map
@json_option
def sweep(
    what: str, calibration: Path, test: Path, values: tuple[float, ...] | None, method: str,
    constant_backbone: bool, prior_var: float, threads: int | None, rename: dict[str, str],
) -> None:  # fmt: skip
    """Repeat a fit over a range of prior variances or calibration fractions.

    A fraction keeps the newest rows, as a shorter calibration window would. Differences (delta_auc and
    delta_nll) are the method minus the reference "against" on the same test rows: the frozen backbone (base)
    for prior variances, Platt scaling fitted on the same share of the rows (platt) for fractions.
    """
    from slc_ops.evidence.metrics import paired_metrics
    from slc_ops.paper import sweeps

    fit_options = _options(prior_var, 10, threads)
    with progress("sweeping ..."):
        first, second = _read(calibration, rename), _read(test, rename)
        if constant_backbone:
            logit = sweeps.mean_label_logit(first)
            first, second = (sweeps.with_constant_backbone(log, logit) for log in (first, second))
        if what == "prior-variance":
            run, values = sweeps.prior_variance_sweep, values or sweeps.PRIOR_VARIANCES
        else:
            run, values = sweeps.calibration_fraction_sweep, values or sweeps.FRACTIONS
        rows = run(first, second, values=values, method=method, options=fit_options)
    against = sweeps.AGAINST[what]
    emit_json({"sweep": what, "method": method, "against": against, "rows": rows})
    metrics = paired_metrics()
    table = []
    for row in rows:
        pairs = [
            (metric.text(row[metric.name]), metric.signed(row[f"delta_{metric.name}"])) for metric in metrics
        ]
        table.append([f"{row['value']:g}", *chain(*pairs)])
    columns = [what, *chain(*((metric.title, f"{metric.title} − {against}") for metric in metrics))]
    print_table(f"{method} by {what}, differences from {against}", columns, table)


def _options(
    prior_var: float, time_bins: int, threads: int | None, effects: tuple[str, ...] | None = None
) -> "FitOptions":
    from slc_ops.methods import FitOptions

    effects = FitOptions.effects if effects is None else effects
    return FitOptions(prior_var=prior_var, time_bins=time_bins, threads=threads, effects=effects)


def _read(path: Path, rename: dict[str, str], *, times: bool = False) -> "InteractionLog":
    from slc_ops.rows.interactions import InteractionLog

    return InteractionLog.read(path, rename=rename, times=times)


def _warn(warnings: tuple[str, ...], prefix: str = "") -> None:
    for text in warnings:
        click.echo(f"warning: {prefix}{text}", err=True)
