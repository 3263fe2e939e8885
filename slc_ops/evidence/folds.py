"""Rolling-origin folds: learn from the windows before, be scored on the window after, never the other way.

Which windows these are is said by :mod:`slc_ops.refresh.window_rules`; a fold opens their rows and cuts them
in time. Each gives one entry of the series that decides the method (:mod:`slc_ops.evidence.series`).
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
    """Windows to learn from and the later window to be scored on.

    ``offsets`` is the long memory, of which ``calibration`` is the end. ``test`` is None in a hold-out inside
    one window: then the last 30 % of its time are the test rows. The score of the ``newest`` window, the one
    that is being refreshed, has slices and items too. With ``summed`` the windows' item sums lie beside them
    and are added up, window by window.
    """

    window: Window
    calibration: tuple[Path, ...]
    test: Path | None
    offsets: tuple[Path, ...] = ()
    newest: bool = False
    summed: bool = False
    older: tuple[Path, ...] = ()
    """What methods that forget learn from, ``offsets`` at its end; and what its rows count."""
    forget: Forgetting | None = None

    @property
    def hold_out(self) -> bool:
        """Whether the test rows are the later part of the only window."""
        return self.test is None

    @property
    def key(self) -> str:
        """A name for directories."""
        return f"{self.window.key}-hold-out" if self.hold_out else self.window.key

    def calibration_log(self, engine: Engine = LOCAL) -> Log:
        """The rows to learn from."""
        return self.cut(engine)[0] if self.test is None else self._read(engine, self.calibration)

    def long_log(self, engine: Engine = LOCAL) -> Log | None:
        """The rows of the long memory; None where they are the calibration's."""
        if len(self.offsets) <= len(self.calibration):
            return None
        return self._read(engine, self.offsets)

    def older_log(self, engine: Engine = LOCAL) -> Log | None:
        """The rows of methods that forget; None where nothing is forgotten."""
        return self._read(engine, self.older) if self.older and self.forget is not None else None

    def test_log(self, engine: Engine = LOCAL) -> Log:
        """The rows to be scored on, all later."""
        return self.cut(engine)[1] if self.test is None else engine.read(self.test)

    def cut(self, engine: Engine = LOCAL) -> tuple[Log, Log]:
        """Both of them, where they are parts of one window."""
        return hold_out(engine.read(self.calibration[0]))

    def tuning_logs(self, engine: Engine = LOCAL, calibration: Log | None = None) -> tuple[Log, Log]:
        """(earlier, later) rows inside the calibration windows: what hyperparameters may see.

        ``calibration``, the fold's own log where it is open, is not read a second time.
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
    """The folds, oldest first, the newest window's last; and what is missing, in words."""

    folds: tuple[Fold, ...]
    notes: tuple[str, ...] = ()

    @property
    def newest(self) -> Fold:
        """The fold on the window that is being refreshed."""
        return self.folds[-1]


def hold_out(log: Log) -> tuple[Log, Log]:
    """Cut a log where 70 % of its rows lie before; rows of the same timestamp stay together."""
    if not log.has("event_time"):
        raise InputError("a window without event_time cannot be cut into an earlier and a later part")
    return log.cut(float(time_quantiles(log, np.array([1 - HOLD_OUT]))[0]))
