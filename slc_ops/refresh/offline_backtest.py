"""A refresh that stops at the verdict: windows directly from a source, nothing registered."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import pyarrow.parquet as pq

from slc_ops.base.errors import InputError, SettingsError
from slc_ops.base.methods import METHODS
from slc_ops.base.window import Window
from slc_ops.evidence.results import Backtest
from slc_ops.evidence.verdict import Verdict
from slc_ops.intake.sources.lake import Lake
from slc_ops.refresh import pipeline
from slc_ops.refresh.champion import champion_in
from slc_ops.refresh.evidence import read_backtest, read_verdict
from slc_ops.refresh.files import RefreshFiles
from slc_ops.settings.deployments import Deployment
from slc_ops.settings.environment import Installation
from slc_ops.settings.sources import LakeSource


def backtest_settings(
    name: str,
    lake: Path | None,
    *,
    methods: Sequence[str] | Literal["all"] | None = None,
    link_windows: int | None = None,
    evidence_windows: int | None = None,
    effects: tuple[str, ...] | None = None,
) -> Deployment:
    """Return the deployment's settings with the caller's changes; with a lake the deployment need not exist.

    ``methods`` are names in the table of methods, or "all" of them. The rows of a ``lake`` need no event ids.
    """
    installation = Installation.from_environment()
    if lake is None:
        settings = installation.deployment(name)
    else:
        source = LakeSource(path=str(lake.absolute()))
        known = installation.deployments if installation.deployments_file.exists() else {}
        settings = known.get(name, Deployment(source=source)).model_copy(update={"source": source})
        settings = without_event_ids(settings)
    chosen = None if methods is None else tuple(METHODS if methods == "all" else methods)
    windows = {"link_windows": link_windows, "evidence_windows": evidence_windows}
    asked = {"methods": chosen, "effects": effects, **windows}
    return settings.model_copy(update={key: value for key, value in asked.items() if value is not None})


def without_event_ids(settings: Deployment) -> Deployment:
    """Return the settings for offline rows, which need no event ids."""
    quality = settings.quality.model_copy(update={"require_event_ids": False})
    return settings.model_copy(update={"quality": quality})


def run_backtest(
    name: str, settings: Deployment, window: Window | None, directory: Path, champion: Path | None = None
) -> tuple[Backtest, Verdict, Path]:
    """Run the refresh without publishing, in ``directory``; return the backtest, the verdict and the report.

    The windows are validated as for any refresh, except that offline rows need no event ids. ``champion`` is
    a parameter set to compare with.
    """
    reference = None if champion is None else champion_in(champion)
    usual, home = Installation.from_environment(), directory.absolute()
    plan = pipeline.refresh(
        replace(usual, home=home, ledger_url=f"sqlite:///{home}/ledger.db", sources=usual.home),
        name,
        window or newest_window(settings),
        settings=without_event_ids(settings),
        champion=reference,
        until="decide",
        off_grid=True,  # nothing is registered, so nothing can overlap
    )
    report = pipeline.write_report(plan, RefreshFiles(directory).report_page)
    return read_backtest(plan), Verdict.from_dict(read_verdict(plan)), report


def newest_window(settings: Deployment) -> Window:
    """Return the window with the newest row of a lake; other sources raise :class:`SettingsError`."""
    if not isinstance(settings.source, LakeSource):
        raise SettingsError("give the newest window with --window START/END; only a lake can determine it")
    always = Window(datetime(1, 1, 8, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC))
    lake = Lake(settings.source, Installation.from_environment().home, always)
    name = settings.source.columns.get("event_time", "event_time")
    newest = []
    for info in lake.files:
        with lake.filesystem.open_input_file(info.path) as stream:
            newest.append(_newest_time(pq.ParquetFile(stream), name))
    if not newest:
        raise InputError(f"the lake {settings.source.path} holds no Parquet file with rows")
    return settings.cadence.containing(max(newest))


def _newest_time(file: pq.ParquetFile, name: str) -> datetime:
    import pyarrow.compute as pc

    if name not in file.schema_arrow.names:
        raise InputError(f"a file of the lake has no column {name!r}; map event_time in the deployments file")
    timestamp = pc.max(file.read(columns=[name])[name]).as_py()
    if not isinstance(timestamp, datetime):
        raise InputError(f"column {name!r} holds no timestamps, so it has no newest window; give --window")
    return timestamp.replace(tzinfo=UTC) if timestamp.tzinfo is None else timestamp.astimezone(UTC)
