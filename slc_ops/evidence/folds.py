"""Define rolling-origin folds: fit on earlier windows, score on the next one.

:mod:`slc_ops.refresh.window_rules` selects the windows; a fold opens their rows and cuts them in time. Each
fold gives one entry of the series that decides the method (:mod:`slc_ops.evidence.series`).
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from slc_ops.base.errors import InputError
from slc_ops.base.json_form import JsonForm
from slc_ops.base.window import Window
from slc_ops.evidence.slices import time_quantiles
from slc_ops.methods.fitting.options import Forgetting
from slc_ops.methods.fitting.summed_log import SummedLog
from slc_ops.methods.fitting.window_sums import open_windows
from slc_ops.rows.engine import LOCAL, Engine
from slc_ops.rows.rows import Log

HOLD_OUT = 0.3


@dataclass(frozen=True)
class Fold(JsonForm):
    """The windows to fit on and the later window to score.

    ``offsets`` is the long memory, which ends with ``calibration``. ``test`` is None in a hold-out inside one
    window: then the last 30 % of its rows are the test rows. Only the score of the ``newest`` window, the one
    being refreshed, has items and all slices. With ``summed`` the item sums stored beside each window are
    added up.
    """

    window: Window
    calibration: tuple[Path, ...]
    test: Path | None
    offsets: tuple[Path, ...] = ()
    newest: bool = False
    summed: bool = False
    older: tuple[Path, ...] = ()
    """The windows for methods that forget, which end with ``offsets``; ``forget`` is their decay."""
    forget: Forgetting | None = None
    starts: tuple[float, ...] = ()
    """The starts of the windows to fit on, oldest first, gaps included; empty: not divided into windows."""

    @property
    def hold_out(self) -> bool:
        """True if the test rows are the later part of the only window."""
        return self.test is None

    @property
    def key(self) -> str:
        """The directory name of the fold."""
        return f"{self.window.key}-hold-out" if self.hold_out else self.window.key

    def calibration_log(self, engine: Engine = LOCAL) -> Log:
        """Return the calibration rows."""
        return self.cut(engine)[0] if self.test is None else self._read(engine, self.calibration)

    def long_log(self, engine: Engine = LOCAL) -> Log | None:
        """Return the rows of the long memory; None if it is no longer than the calibration."""
        if len(self.offsets) <= len(self.calibration):
            return None
        return self._read(engine, self.offsets)

    def older_log(self, engine: Engine = LOCAL) -> Log | None:
        """Return the rows of methods that forget; None if nothing is forgotten."""
        return self._read(engine, self.older) if self.older and self.forget is not None else None

    def test_log(self, engine: Engine = LOCAL) -> Log:
        """Return the test rows, all later than the calibration rows."""
        return self.cut(engine)[1] if self.test is None else engine.read(self.test)

    def cut(self, engine: Engine = LOCAL) -> tuple[Log, Log]:
        """Return the (calibration, test) rows of a hold-out inside one window."""
        return hold_out(engine.read(self.calibration[0]))

    def tuning_logs(self, engine: Engine = LOCAL, calibration: Log | None = None) -> tuple[Log, Log]:
        """Return the (earlier, later) rows inside the calibration windows, for tuning hyperparameters.

        Pass the fold's open log as ``calibration`` to avoid a second read.
        """
        if len(self.calibration) == 1:
            return hold_out(self.calibration_log(engine) if calibration is None else calibration)
        if isinstance(calibration, SummedLog):
            return calibration.cut_last_window()
        return self._read(engine, self.calibration[:-1]), engine.read(self.calibration[-1])

    def _read(self, engine: Engine, windows: tuple[Path, ...]) -> Log:
        return open_windows(engine, windows) if self.summed else engine.read(windows)


@dataclass(frozen=True)
class FoldPlan(JsonForm):
    """The folds, oldest first; ``notes`` describe missing windows."""

    folds: tuple[Fold, ...]
    notes: tuple[str, ...] = ()

    @property
    def newest(self) -> Fold:
        """The fold of the window being refreshed."""
        return self.folds[-1]


def hold_out(log: Log) -> tuple[Log, Log]:
    """Cut a log after the first 70 % of its rows; rows with the same timestamp stay together."""
    if not log.has("event_time"):
        raise InputError("a window without event_time cannot be cut into an earlier and a later part")
    return log.cut(float(time_quantiles(log, np.array([1 - HOLD_OUT]))[0]))
