"""``replay`` over a data frame: past refreshes, simulated."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import ValidationError

from slc_ops.api.errors import BadOption, FrameError, as_value_errors
from slc_ops.api.pages import Shown, Titled
from slc_ops.base.extras import require
from slc_ops.base.files import write_text
from slc_ops.base.text import MISSING, share, signed
from slc_ops.evidence.replayed import SERVED, Replay
from slc_ops.reporting.replay import contender_rows, draw_replay, window_row, write_replay
from slc_ops.rows.columns import CONTRACT_COLUMNS
from slc_ops.rows.frames import Frame, as_table, column_names
from slc_ops.settings.deployments import Deployment

NAME = "frame"
_REFERENCES = ("platt", "base")


@dataclass(frozen=True, repr=False)
class Replayed(Shown):
    """The simulated refreshes over past windows.

    Attributes:
        result: All figures, with every window and every method.
    """

    result: Replay

    @property
    def table(self) -> pa.Table:
        """One row per window: serving method, NLL, differences from Platt and the frozen model, next method.

        Figures of a window that was not scored are null; ``why`` gives the reason.
        """
        rows = []
        for each in self.result.windows:
            pairs = [None if each.entry is None else each.entry.difference("served", r) for r in _REFERENCES]
            rows.append(
                {
                    "start": each.window.start,
                    "end": each.window.end,
                    "status": each.status,
                    "served": each.served,
                    "nll": None if each.entry is None else each.entry.nll.get("served"),
                    "minus_platt": None if pairs[0] is None else pairs[0].d,
                    "minus_frozen": None if pairs[1] is None else pairs[1].d,
                    "serves_next": each.serves_next,
                    "why": each.note or each.sentence,
                }
            )
        kinds = {"start": pa.timestamp("us", "UTC"), "end": pa.timestamp("us", "UTC")}
        figures = ("nll", "minus_platt", "minus_frozen")
        fields = {name: kinds.get(name, pa.float64() if name in figures else pa.string()) for name in rows[0]}
        return pa.Table.from_pylist(rows, schema=pa.schema(fields))

    def to_pandas(self) -> Any:
        """Return the table as a pandas frame, indexed by window start."""
        return self.table.to_pandas().set_index("start")

    def as_dict(self) -> dict[str, Any]:
        """Return the content of ``slc-ops replay --json``."""
        return self.result.as_dict()

    def plot(self) -> "Figure":
        """Plot the served model against Platt and the frozen model, as in the command's page."""
        with TemporaryDirectory(prefix="slc-replay-") as scratch:
            drawings = draw_replay(Path(scratch), self.result)
        return Figure("".join(each.svg for name, each in drawings.items() if name == "served"))

    def report(self, path: str | Path) -> Path:
        """Write the command's page as one self-contained file; return its path."""
        with TemporaryDirectory(prefix="slc-replay-") as scratch:
            page = write_replay(Path(scratch) / "replay.html", self.result)
            write_text(Path(path), page.read_text(encoding="utf-8"), shared=True)
        return Path(path)

    def _notes(self) -> Sequence[str]:
        return replay_notes(self.result)

    def _tables(self) -> list[Titled]:
        return replay_tables(self.result)


def replay_tables(found: Replay) -> list[Titled]:
    """Return the tables of a replay, in at most 80 columns: every window, the contenders, their AUC."""
    running = dict(found.cumulated(SERVED, "platt"))
    windows = []
    for each in found.windows:
        row = window_row(each)
        figures = [row["nll"], row["platt"], signed(running.get(each.window), 3), row["frozen"]]
        end = each.status if each.status in ("stopped", "missing") else each.change or each.renewal
        windows.append(
            [f"{each.window.dates[0]}", row["served"], *figures, MISSING if end == "none" else end]
        )
    contenders = contender_rows(found)
    columns = ["window", SERVED, "NLL", "vs Platt", "summed", "vs frozen", "refresh"]
    tables = [
        (f"{found.deployment}, {found.span}, window by window", columns, windows),
        (
            f"NLL over {len(found.scored)} scored windows (* best in hindsight)",
            ["", "vs refitted Platt", "vs frozen"],
            [[f"{row['name']} *" if row["best"] else row["name"], *row["cells"]] for row in contenders],
        ),
    ]
    if kinds := list(found.ranking[SERVED]):
        columns = ["", *("all" if kind == "all" else f"within {kind}" for kind in kinds)]
        title = "AUC, mean over windows: all pairs of rows, or those of the same user or item only"
        tables.append((title, columns, [[row["name"], *row["auc"]] for row in contenders]))
    return tables


def replay_notes(found: Replay) -> list[str]:
    """Return the sentences of a replay: its result, then every change."""
    notes = [f"{found.headline}. {found.sentence}"]
    if found.ranking_in_words:
        notes.append(found.ranking_in_words)
    if (served := found.against("platt").get(SERVED)) is not None:
        notes.append(f"The worst served window, {served.worst_window}: {signed(served.worst)} against Platt.")
    if found.kept is not None:
        notes.append(f"Of the gain of {found.best} over Platt {share(found.kept)} was served.")
    notes += [
        f"After {each.window}: {each.served} → {each.serves_next}. {each.sentence}" for each in found.changes
    ]
    notes += [f"After {each.window}: parameters held. {each.sentence}" for each in found.renewals("held")]
    return notes + [f"Stopped: {each.note}" for each in found.with_status("stopped")]


@dataclass(frozen=True)
class Figure:
    """A figure that notebooks render; ``svg`` is its markup."""

    svg: str

    def _repr_html_(self) -> str:
        return self.svg


def replay(
    frame: Frame,
    *,
    days: int = 7,
    methods: Sequence[str] | None = None,
    columns: Mapping[str, str] | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Replayed:
    """Simulate the refreshes over the windows of a frame, in order, to measure their benefit.

    Each window is scored with the model that the earlier refreshes put in place, and with the frozen model,
    Platt and each method refitted every window, as ``slc-ops replay`` does. Nothing is registered. Needs the
    extras ``mlflow``, ``quality`` and ``report``.

    Args:
        frame: Rows with ``event_time`` (timestamps), ``user_id``, ``item_id``, ``label`` and ``logit`` (or
            ``probability``).
        days: Length of a window: 1, 7, 14 or 28.
        methods: Methods that are compared and may serve; default those of a deployment.
        columns: Contract names mapped to the frame's own: ``{"item_id": "problem", "label": "correct"}``.
        settings: Other settings of a deployment, as in the deployments file: ``{"evidence_windows": 4}``.

    Raises:
        FrameError: Unusable rows or columns (a ``ValueError``).
        BadOption: An unknown method or an invalid setting.
    """
    require("slc_ops.replay", "mlflow", "quality", "report")
    from slc_ops.refresh.replay import run_replay

    with as_value_errors(), TemporaryDirectory(prefix="slc-replay-") as scratch:
        home = Path(scratch)
        rows = _rows(frame, dict(columns or {}))
        (home / "lake").mkdir()
        pq.write_table(rows, home / "lake" / "rows.parquet")
        deployment = _deployment(days, methods, dict(settings or {}))
        first, last = (deployment.cadence.containing(timestamp) for timestamp in _ends(rows))
        windows = deployment.cadence.between(first.start, last.end)
        return Replayed(run_replay(NAME, deployment, windows, home / "replay", home=home))


def _rows(frame: Frame, columns: dict[str, str]) -> pa.Table:
    """Return the frame's columns under the contract's names; times without a zone are UTC."""
    present = column_names(frame)
    names = {name: columns.get(name, name) for name in CONTRACT_COLUMNS}
    wanted = {name: own for name, own in names.items() if own in present or name in columns}
    rows = as_table(frame, list(wanted.values())).rename_columns(list(wanted))
    if "event_time" not in rows.column_names:
        raise FrameError(
            f"a replay needs times: the frame has no column {names['event_time']!r}; it has "
            f"{', '.join(present)} (rename with columns={{'event_time': 'your_name'}})"
        )
    place = rows.column_names.index("event_time")
    if not pa.types.is_timestamp(rows.column(place).type):
        raise FrameError(
            f"column {names['event_time']!r} holds {rows.column(place).type}, and windows of days need "
            "timestamps; convert it, for example with pandas.to_datetime"
        )
    # Times have microseconds, as everywhere; pandas' have nanoseconds.
    time = rows.column(place).cast(pa.timestamp("us", "UTC"), safe=False)
    return rows.set_column(place, "event_time", time)


def _ends(rows: pa.Table) -> tuple[Any, Any]:
    found = pc.min_max(rows["event_time"]).as_py()
    if found["min"] is None:
        raise FrameError("a replay needs rows with times; the frame has none")
    return found["min"], found["max"]


def _deployment(days: int, methods: Sequence[str] | None, settings: dict[str, Any]) -> Deployment:
    """Return settings of a deployment whose log is the frame; event ids are not required."""
    quality = {"require_event_ids": False, **settings.pop("quality", {})}
    given = {"source": {"kind": "lake", "path": "lake"}, "window": {"days": days}, "quality": quality}
    chosen = {} if methods is None else {"methods": tuple(methods)}
    try:
        return Deployment.model_validate(given | chosen | settings)
    except ValidationError as error:
        found = error.errors()[0]
        where = ".".join(str(part) for part in found["loc"])
        raise BadOption(f"{where}: {found['msg']}, found {found['input']!r}") from None
