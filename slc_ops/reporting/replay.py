"""The page of a replay: figures first, then every window."""

from pathlib import Path
from typing import Any

from slc_ops.base import text
from slc_ops.base.files import replacing_directory, write_text
from slc_ops.base.methods import score_only
from slc_ops.evidence.replayed import SERVED, Replay, ReplayedWindow
from slc_ops.reporting.figures import forests, served
from slc_ops.reporting.style import Drawing, render


def write_replay(page: Path, replay: Replay) -> Path:
    """Write the self-contained ``page`` and ``figures/*.png`` beside it; return the page."""
    with replacing_directory(page.parent / "figures") as temporary:
        drawings = draw_replay(temporary, replay)
    platt, frozen = replay.against("platt"), replay.against("base")
    write_text(
        page,
        render(
            "replay.html.j2",
            drawings,
            replay=replay,
            against_platt=platt,
            against_frozen=frozen,
            served=platt.get(SERVED),
            served_frozen=frozen.get(SERVED),
            rows=[window_row(each) for each in replay.windows],
            contenders=contender_rows(replay),
            name_of=served.name_of,
        ),
    )
    return page


def draw_replay(directory: Path, replay: Replay) -> dict[str, Drawing]:
    """Draw every figure that has data."""
    methods = [name for name in replay.methods if name != "platt"]
    refitted = None if score_only(replay.best) else replay.best
    drawings = [
        served.draw(directory, replay, refitted),
        served.draw_cumulated(
            directory,
            {name: replay.cumulated(name, "platt") for name in (SERVED, *methods) if name != "base"},
            name="cumulated_platt",
            title="Cumulative difference from Platt",
            caption="NLL minus that of Platt refitted every window, cumulative; below 0 is better.",
        ),
        served.draw_cumulated(
            directory,
            {name: replay.cumulated(name, "base") for name in (SERVED, "platt", *methods) if name != "base"},
            name="cumulated_frozen",
            title="Cumulative difference from the frozen model",
            caption="NLL minus that of the frozen model, cumulative; below 0 is better.",
        ),
        forests.draw_contenders(directory, replay),
    ]
    return {drawing.name: drawing for drawing in drawings if drawing is not None}


def contender_rows(replay: Replay) -> list[dict[str, Any]]:
    """Return one row per contender: its mean against Platt and the frozen model, with intervals."""
    platt, frozen = replay.against("platt"), replay.against("base")
    rows = []
    for name in (SERVED, *replay.methods):
        found = [each.get(name) for each in (platt, frozen)]
        cells = [
            text.MISSING if one is None else text.interval(one.mean, one.statistic.low, one.statistic.high)
            for one in found
        ]
        worst = found[0]
        rows.append(
            {
                "name": served.name_of(name),
                "every_window": name not in (SERVED, "base"),
                "best": name == replay.best,
                "chosen": name == SERVED,
                "cells": cells,
                "auc": [text.number(replay.ranking[name].get(kind)) for kind in replay.ranking[SERVED]],
                "worst": text.MISSING
                if worst is None
                else f"{text.signed(worst.worst)} ({worst.worst_window.dates[0]:%-d %b})",
            }
        )
    return rows


def window_row(each: ReplayedWindow) -> dict[str, Any]:
    """Return one window as a row of the table."""
    entry = each.entry
    pair = None if entry is None else entry.difference(SERVED, "platt")
    frozen = None if entry is None else entry.difference(SERVED, "base")
    return {
        "window": str(each.window),
        "status": each.status,
        "served": served.name_of(each.served),
        "rows": None if entry is None else entry.rows,
        "nll": text.number(None if entry is None else entry.nll.get(SERVED)),
        "platt": text.MISSING if pair is None else text.signed(pair.d),
        "frozen": text.MISSING if frozen is None else text.signed(frozen.d),
        "next": _next(each),
        "why": each.note or each.sentence,
    }


def _next(each: ReplayedWindow) -> str:
    if each.change is not None:
        return f"{each.change} to {served.name_of(each.serves_next)}"
    return {"renewed": "renewed", "held": "held", "none": text.MISSING}[each.renewal]
