"""``replay``: simulate the refreshes of past windows."""

from pathlib import Path

import click

from slc_ops.base.console import emit_json, json_option, print_lines, print_table, progress, say
from slc_ops.base.extras import require
from slc_ops.cli import options


@click.command(cls=options.CommandOfMethods)
@click.option("--deployment", "name", required=True, metavar="D",
              help="A name from the deployments file; with --lake also any other name.")  # fmt: skip
@click.option("--from", "start", required=True, metavar="START", help="Start of the first window, UTC.")
@click.option("--to", "end", required=True, metavar="END", help="End of the last window (exclusive), UTC.")
@options.lake
@options.methods()
@options.effects("the deployment's")
@click.option(
    "--out", type=options.FILE, help="Directory for the page, its figures and the rows of the windows."
)
@json_option
def replay(
    name: str, start: str, end: str, lake: Path | None, methods: options.Methods | None,
    effects: tuple[str, ...] | None, out: Path | None,
) -> None:  # fmt: skip
    """Simulate the refreshes over past windows; nothing is registered.

    Every window is scored with the model that the earlier refreshes put in place, and with the frozen model,
    Platt and each method refitted every window. Every change of method counts as approved immediately.
    """
    require("slc-ops replay", "mlflow", "quality", "report")
    from tempfile import TemporaryDirectory

    from slc_ops.api.replaying import replay_notes, replay_tables
    from slc_ops.refresh.offline_backtest import backtest_settings
    from slc_ops.refresh.replay import replay_windows, run_replay
    from slc_ops.settings.environment import Installation

    settings = backtest_settings(name, lake, methods=methods, effects=effects)
    home = Installation.from_environment().home
    windows = replay_windows(settings, start, end)
    with TemporaryDirectory(prefix="slc-replay-") as temporary, progress(f"replaying {len(windows)} windows"):
        found = run_replay(name, settings, windows, Path(temporary) if out is None else out, home=home)
        page = None
        if out is not None:
            from slc_ops.reporting.replay import write_replay

            page = write_replay(out / "replay.html", found)
    emit_json(found.as_dict())
    for table in replay_tables(found):
        print_table(*table, whole=["window"])
    print_lines(replay_notes(found))
    if page is not None:
        say(f"Page: {page}")
