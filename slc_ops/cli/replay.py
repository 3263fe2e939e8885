"""``replay``: simulate the refreshes of past windows."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from slc_ops.base.console import emit_json, json_option, print_lines, print_table, progress, say
from slc_ops.base.extras import require
from slc_ops.base.methods import REFERENCES
from slc_ops.base.text import MISSING, interval, number, share, signed
from slc_ops.cli.methods import CommandOfMethods, effects_option, known_methods

if TYPE_CHECKING:
    from slc_ops.cli.methods import Methods
    from slc_ops.evidence.replayed import Replay, ReplayedWindow

path_type = click.Path(path_type=Path)


@click.command(cls=CommandOfMethods)
@click.option("--deployment", "name", required=True, metavar="D",
              help="A name from the deployments file; with --lake also any other name.")  # fmt: skip
@click.option("--from", "start", required=True, metavar="START", help="Start of the first window, UTC.")
@click.option("--to", "end", required=True, metavar="END", help="End of the last window (exclusive), UTC.")
@click.option("--lake", type=path_type, help="A lake of Parquet files; instead of the deployment's source.")
@click.option(
    "--methods", metavar="all|a,b", callback=known_methods,
    help="'all' of the methods below, or some of them [default: the deployment's].",
)  # fmt: skip
@effects_option("the deployment's")
@click.option(
    "--out", type=path_type, help="Directory for the page, its figures and the rows of the windows."
)
@json_option
def replay(
    name: str, start: str, end: str, lake: Path | None, methods: "Methods | None",
    effects: tuple[str, ...] | None, out: Path | None,
) -> None:  # fmt: skip
    """Simulate the refreshes over past windows; nothing is registered.

    Every window is scored with the model that the earlier refreshes put in place, and with the frozen model,
    Platt and each method refitted every window. Every change of method counts as approved immediately.
    """
    require("slc-ops replay", "mlflow", "quality", "report")
    from tempfile import TemporaryDirectory

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
    print_replay(found)
    if page is not None:
        say(f"Page: {page}")


def print_replay(found: "Replay") -> None:
    """Print every window, the contenders and the changes, in at most 80 columns."""
    columns = ["window", "served", "NLL", "vs Platt", "summed", "vs frozen", "refresh"]
    running = dict(found.cumulated("served", "platt"))
    rows = [_window(each, running.get(each.window)) for each in found.windows]
    print_table(f"{found.deployment}, {found.span}, window by window", columns, rows, ["window"])
    platt, frozen = found.against("platt"), found.against("base")
    contenders = []
    for name in ("served", *found.methods):
        cells = [each.get(name) for each in (platt, frozen)]
        mark = " *" if name == found.best else ""
        contenders.append(
            [f"{name}{mark}"]
            + [MISSING if c is None else interval(c.mean, c.statistic.low, c.statistic.high) for c in cells]
        )
    title = f"NLL over {len(found.scored)} scored windows (* best in hindsight)"
    print_table(title, ["", "vs refitted Platt", "vs frozen"], contenders)
    kinds = list(found.ranking["served"])
    if kinds:
        print_table(
            "AUC, mean over windows: all pairs of rows, or those of the same user or item only",
            ["", *("all" if kind == "all" else f"within {kind}" for kind in kinds)],
            [[name, *(number(each.get(kind)) for kind in kinds)] for name, each in found.ranking.items()],
        )
    said = [found.sentence]
    if found.ranking_in_words:
        said.append(found.ranking_in_words)
    if found.kept is not None:
        said.append(f"Of the gain of {found.best} over Platt {share(found.kept)} was served.")
    said += [
        f"After {each.window}: {each.served} → {each.serves_next}. {each.sentence}" for each in found.changes
    ]
    said += [f"After {each.window}: parameters held. {each.sentence}" for each in found.renewals("held")]
    said += [f"Stopped: {each.note}" for each in found.with_status("stopped")]
    print_lines(said)


def _window(each: "ReplayedWindow", running: float | None) -> list[str]:
    entry = each.entry
    pairs = [None if entry is None else entry.difference("served", who) for who in reversed(REFERENCES)]
    end = each.status if each.status in ("stopped", "missing") else each.change or each.renewal
    return [
        f"{each.window.dates[0]}",
        each.served,
        number(None if entry is None else entry.nll.get("served")),
        signed(None if pairs[0] is None else pairs[0].d),
        signed(running, 3),
        signed(None if pairs[1] is None else pairs[1].d),
        MISSING if end == "none" else end,
    ]
