"""The ``slc-ops`` command: a thin layer from a terminal to plain functions.

The modules of this package hold the commands and are imported lazily, which keeps ``--help`` fast.
Exit codes: 0 success, 2 invalid usage or input (one line, no traceback), 1 a bug.
"""

import importlib
from difflib import get_close_matches

import click

from slc_ops import __version__
from slc_ops.base.console import run_app
from slc_ops.base.memory import keep_memory_between_batches
from slc_ops.observability.logs import configure_logs

# command → (module of this package, one-line help that needs no import)
COMMANDS: dict[str, tuple[str, str]] = {
    "demo": ("data", "Run a complete refresh on simulated logs in one directory, without Airflow."),
    "simulate": ("data", "Write a production log lake with known per-item bias and drift."),
    "ingest": ("data", "Turn a public data set into history, calibration and test files."),
    "fit": ("ladder", "Fit one method on a calibration file and write its parameter set."),
    "apply": ("ladder", "Correct a file with a parameter set or a registered model."),
    "rename-items": ("parameter_sets", "Carry a parameter set's offsets over to new item ids."),
    "export": ("parameter_sets", "Write a parameter set as SQL, CSV, JSON lines or Redis commands."),
    "compare": ("ladder", "Fit methods on one file, score them on a later one."),
    "sweep": ("ladder", "Repeat a fit over prior variances or calibration fractions."),
    "backtest": ("evidence", "Evaluate the ladder over past windows of a lake."),
    "replay": ("replay", "Run the operation over past windows, as it would have run."),
    "detectability": ("evidence", "Report the smallest detectable drift, per item."),
    "paper": ("evidence", "Run all of the paper's analyses on a pair of files."),
    "study": ("study", "Train the paper's five backbones on a log, then make its tables."),
    "control": ("controls", "Run a standing control: real data with a known answer."),
    "refresh": ("refresh", "Run a complete refresh without Airflow."),
    "report": ("refresh", "Write the HTML report of a finished refresh again."),
    "status": ("reading", "Show the champion and challenger of every deployment."),
    "history": ("reading", "Show a deployment's champions, oldest first."),
    "promote": ("registry", "Make a version the champion."),
    "rollback": ("registry", "Make an earlier champion the champion again."),
    "retire": ("registry", "Remove the champion; the frozen model serves."),
    "verify": ("reading", "Compare the ledger with MLflow's aliases (--repair), check its rows (--chain)."),
    "serve": ("serve", "Serve corrections over HTTP: JSON, Arrow, MLflow, Open Inference."),
    "schema": ("reading", "Print the JSON Schema of the deployments file."),
    "clean": ("upkeep", "Remove windows and refreshes beyond the limits of a deployment."),
    "erase": ("upkeep", "Erase users from all stored data, with a receipt."),
    "metrics": ("upkeep", "Show durations, rows, verdicts and champion ages for Prometheus."),
}


class Group(click.Group):
    """A group that suggests a command for a mistyped one and never truncates help."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = self.list_commands(ctx)
        if args and not args[0].startswith("-") and args[0] not in known:
            close = get_close_matches(args[0].lower().replace("_", "-"), known, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"expected one of {', '.join(known)}"
            raise click.UsageError(f"no command {args[0]!r}; {hint}", ctx)
        return super().resolve_command(ctx, args)

    def described(self, ctx: click.Context) -> list[tuple[str, str]]:
        """Return each command with the first sentence of its help."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        return [(name, command.get_short_help_str(1000)) for name, command in commands if command]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(self.described(ctx))


class LazyGroup(Group):
    """A group that imports a command's module only when the command runs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"slc_ops.cli.{COMMANDS[cmd_name][0]}")
        command: click.Command = getattr(module, cmd_name.replace("-", "_"))
        return command

    def described(self, ctx: click.Context) -> list[tuple[str, str]]:
        return [(name, text) for name, (_, text) in COMMANDS.items()]


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100, "show_default": True},
)
@click.version_option(__version__, prog_name="slc-ops")
def app() -> None:
    """Correct the per-item bias of frozen models: fit, compare, register, promote, serve.

    Start with `slc-ops compare --calibration FILE --test FILE` on two of your files.
    """
    configure_logs()  # not for --help, which must be fast
    keep_memory_between_batches()


def main() -> None:
    """Run a command; convert expected errors to one line and exit code 2."""
    run_app(app)
