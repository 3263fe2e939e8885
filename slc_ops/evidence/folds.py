"""Define rolling-origin folds, and open their rows: fit on earlier windows, score on the next one.

:mod:`slc_ops.refresh.window_rules` selects the windows; their rows are cut in time. Each
fold gives one entry of the series that decides the method (:mod:`slc_ops.evidence.series`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from slc_ops.base.errors import InputError
from slc_ops.base.json_form import JsonForm
from slc_ops.base.methods import method_named
from slc_ops.base.threads import Once, once
from slc_ops.base.window import Window
from slc_ops.evidence.slices import Slicing, by_density, by_group, by_time, time_quantiles
from slc_ops.methods import FitOptions
from slc_ops.methods.fitting.calibration import Calibration
from slc_ops.methods.fitting.options import Forgetting
from slc_ops.methods.fitting.prior_sample import item_sample
from slc_ops.methods.fitting.window_sums import SummedLog, open_windows
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


@dataclass(frozen=True)
class FoldPlan(JsonForm):
    """The folds, oldest first; ``notes`` describe missing windows."""

    folds: tuple[Fold, ...]
    notes: tuple[str, ...] = ()

    @property
    def newest(self) -> Fold:
        """The fold of the window being refreshed."""
        return self.folds[-1]


class FoldRows:
    """The open rows of a fold, and what its methods share; each part is made once, on first use.

    ``methods`` are those to be fitted: with one of long memory, the calibration rows are the end of the long
    memory, with one that forgets, the long memory is the end of the older rows.
    """

    def __init__(
        self,
        fold: Fold,
        engine: Engine = LOCAL,
        options: FitOptions | None = None,
        methods: Sequence[str] = (),
    ) -> None:
        """Prepare a fold; nothing is read yet."""
        self.fold, self.engine, self.options = fold, engine, options or FitOptions()
        known = [method_named(name) for name in methods]
        self._long_memory = any(method.long_memory for method in known)
        self._forgets = any(method.forgets for method in known)
        self._once = Once()

    @once
    def calibration(self) -> Calibration:
        """The calibration rows and their sums."""
        if self.fold.hold_out:
            return self._prepared(self._cut[0])
        return self._prepared(self._read(self.fold.calibration, self.long if self._long_memory else None))

    @once
    def long(self) -> Calibration | None:
        """The long memory; None if it is no longer than the calibration."""
        if len(self.fold.offsets) <= len(self.fold.calibration):
            return None
        return self._prepared(self._read(self.fold.offsets, self.older if self._forgets else None))

    @once
    def older(self) -> Calibration | None:
        """The rows of methods that forget, with their decay; None if nothing is forgotten."""
        fold = self.fold
        if fold.forget is None:
            return None
        return Calibration(self._read(fold.older), None, self.options, fold.forget, fold.starts)

    def _prepared(self, log: Log) -> Calibration:
        found = Calibration(log, None, self.options, None, self.fold.starts)
        found.keep_rows = self._forgets  # slc_eb and slc_mix select on the same rows
        return found

    def _read(self, windows: tuple[Path, ...], whole: Calibration | None = None) -> Log:
        """Open windows, as the end of a ``whole`` that is open already where it has sums by window."""
        if whole is not None and isinstance(whole.log, SummedLog):
            return whole.log.last_windows(len(windows))
        return open_windows(self.engine, windows) if self.fold.summed else self.engine.read(windows)

    @once
    def test(self) -> Log:
        """The test rows, all later than the calibration rows."""
        return self._cut[1] if self.fold.test is None else self.engine.read(self.fold.test)

    @once
    def _cut(self) -> tuple[Log, Log]:
        """The (calibration, test) rows of a hold-out inside one window."""
        return hold_out(self.engine.read(self.fold.calibration[0]))

    @once
    def tuning(self) -> tuple[Calibration, Log]:
        """The (earlier, later) rows inside the calibration windows, for tuning hyperparameters.

        For a large log, all rows of a sample of items.
        Raises :class:`~slc_ops.base.errors.InputError` if the rows cannot be cut in time.
        """
        logs = self._in_time()
        earlier, later = item_sample(*logs) or logs
        return Calibration(earlier, None, self.options), later

    def _in_time(self) -> tuple[Log, Log]:
        *before, last = self.fold.calibration
        if not before:
            return hold_out(self.calibration.log)
        if isinstance(self.calibration.log, SummedLog):
            return self.calibration.log.cut_last_window()
        return self._read(tuple(before)), self.engine.read(last)

    @once
    def slicings(self) -> tuple[Slicing, ...]:
        """The slicings of the test rows: by time; on the newest window also by density and group."""
        found = [by_time(self.test, self.fold.window)]
        if self.fold.newest:
            found = [by_density(self.calibration.log, self.test), by_group(self.test), *found]
        return tuple(found)


def hold_out(log: Log) -> tuple[Log, Log]:
    """Cut a log after the first 70 % of its rows; rows with the same timestamp stay together."""
    if not log.has("event_time"):
        raise InputError("a window without event_time cannot be cut into an earlier and a later part")
    return log.cut(float(time_quantiles(log, np.array([1 - HOLD_OUT]))[0]))
