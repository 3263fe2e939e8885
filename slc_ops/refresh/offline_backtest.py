"""A backtest without a refresh: windows straight from a source, a verdict, nothing registered."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import pyarrow.parquet as pq

from slc_ops.base.errors import InputError, SettingsError
from slc_ops.base.files import replacing_directory, write_json
from slc_ops.base.methods import METHODS
from slc_ops.base.window import Window
from slc_ops.evidence.backtest import backtest
from slc_ops.evidence.decision import Verdict, decide
from slc_ops.evidence.detectability import Detectability, detectability
from slc_ops.evidence.results import Backtest
from slc_ops.evidence.tuning import Grid
from slc_ops.intake.extract import extract
from slc_ops.intake.sources.lake import Lake
from slc_ops.methods import FitOptions
from slc_ops.parameters.parameter_set import ParameterSet
from slc_ops.reporting.report import write_report
from slc_ops.settings.deployments import Deployment, Places
from slc_ops.settings.sources import LakeSource


def backtest_settings(
    name: str,
    lake: Path | None,
    *,
    methods: Sequence[str] | Literal["all"] | None = None,
    calibration_weeks: int | None = None,
    folds: int | None = None,
) -> Deployment:
    """The deployment's settings with what the caller says instead; with a lake it need not exist.

    ``methods`` are names of the table of methods, or "all" of them.
    """
    places = Places.from_environment()
    if lake is None:
        settings = places.deployment(name)
    else:
        source = LakeSource(path=str(lake.absolute()))
        known = places.deployments if places.deployments_file.exists() else {}
        settings = (
            known[name].model_copy(update={"source": source}) if name in known else Deployment(source=source)
        )
    chosen = None if methods is None else tuple(METHODS if methods == "all" else methods)
    asked = {"methods": chosen, "calibration_weeks": calibration_weeks, "folds": folds}
    return settings.model_copy(update={key: value for key, value in asked.items() if value is not None})


def run_backtest(
    name: str, settings: Deployment, window: Window | None, directory: Path, champion: Path | None = None
) -> tuple[Backtest, Verdict, Path]:
    """Extract the windows, score, decide and write the report into ``directory``."""
    newest = window or newest_window(settings)
    windows = []
    for each in [*newest.before(settings.folds - 1 + settings.calibration_weeks), newest]:
        manifest = extract(settings, each, directory / "windows")
        if manifest.rows:
            windows.append((each, manifest.path))
    if not windows or windows[-1][0] != newest:
        raise InputError(f"the source has no rows in window {newest}; give another one with --window")
    result = backtest(
        windows,
        methods=settings.methods,
        calibration_weeks=settings.calibration_weeks,
        folds=settings.folds,
        options=FitOptions(prior_var=settings.prior_var, time_bins=settings.time_bins),
        grid=Grid.of(settings.decision),
        champion=None if champion is None else ParameterSet.read(champion),
        rules=settings.decision,
        directory=directory / "scores",
    )
    seen = detectability(result.plan.confirming.calibration_log(), time_bins=settings.time_bins)
    verdict = decide(result, seen, settings.decision)
    return result, verdict, _write(name, directory, result, verdict, seen)


def _write(name: str, directory: Path, result: Backtest, verdict: Verdict, seen: Detectability) -> Path:
    write_json(directory / "backtest.json", result.as_dict())
    write_json(directory / "verdict.json", verdict.as_dict())
    with replacing_directory(directory / "detectability") as temporary:
        write_json(temporary / "detectability.json", seen.as_dict())
    return write_report(
        directory / "report",
        verdict=verdict.as_dict(),
        backtest=result.as_dict(),
        detectability=directory / "detectability",
        plan={"deployment": name},
    )


def newest_window(settings: Deployment) -> Window:
    """The week of the newest row of a lake, from the files' statistics."""
    if not isinstance(settings.source, LakeSource):
        raise SettingsError("give the newest window with --window START/END; only a lake can be asked for it")
    lake = Lake(settings.source, Places.from_environment().home)
    name = settings.source.columns.get("event_time", "event_time")
    newest = None
    for info in lake.files(Window(datetime(1, 1, 8, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC))):
        with lake.filesystem.open_input_file(info.path) as stream:
            found = _newest_moment(pq.ParquetFile(stream), name)
        newest = found if newest is None else max(newest, found)
    if newest is None:
        raise InputError(f"the lake {settings.source.path} holds no Parquet file with rows")
    return Window.week_of(newest)


def _newest_moment(file: pq.ParquetFile, name: str) -> datetime:
    import pyarrow.compute as pc

    if name not in file.schema_arrow.names:
        raise InputError(f"a file of the lake has no column {name!r}; map event_time in the deployments file")
    moment = pc.max(file.read(columns=[name])[name]).as_py()
    if not isinstance(moment, datetime):
        raise InputError(f"column {name!r} holds no moments, so it has no newest week; give --window")
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
