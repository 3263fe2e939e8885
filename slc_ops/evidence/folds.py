"""Rolling-origin folds: learn from the weeks before, be scored on the week after, never the other way.

    week     1   2   3   4   5   6   7   8
    choose   c   c   c   c   T
    choose       c   c   c   c   T
    choose           c   c   c   c   T
    confirm              c   c   c   c   T      the newest window

Methods are chosen on the older folds and confirmed on the newest. Without older folds the choice falls back
to a forward hold-out inside the newest fold's calibration weeks, so it still never sees the newest window.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from slc_ops.base.errors import InputError
from slc_ops.base.window import Window
from slc_ops.evidence.slices import time_quantiles
from slc_ops.numerics.summed_log import SummedLog
from slc_ops.numerics.window_sums import open_windows
from slc_ops.rows.engine import LOCAL, Engine
from slc_ops.rows.rows import Log

Role = Literal["choose", "confirm"]
HOLD_OUT = 0.3


@dataclass(frozen=True)
class Fold:
    """Windows to learn from and the later window to be scored on.

    ``test`` is None in a hold-out inside one window: then the last 30 % of its time are the test rows.
    With ``summed`` the windows' item sums lie beside them and are added up, window by window.
    """

    role: Role
    window: Window
    calibration: tuple[Path, ...]
    test: Path | None
    hold_out: bool = False
    summed: bool = False

    @property
    def key(self) -> str:
        """A name for directories."""
        return f"{self.role}-{self.window.key}"

    def calibration_log(self, engine: Engine = LOCAL) -> Log:
        """The rows to learn from."""
        return self.cut(engine)[0] if self.test is None else self._read(engine, self.calibration)

    def test_log(self, engine: Engine = LOCAL) -> Log:
        """The rows to be scored on, all later."""
        return self.cut(engine)[1] if self.test is None else engine.read(self.test)

    def cut(self, engine: Engine = LOCAL) -> tuple[Log, Log]:
        """Both of them, where they are parts of one window."""
        return hold_out(engine.read(self.calibration[0]))

    def tuning_logs(self, engine: Engine = LOCAL, calibration: Log | None = None) -> tuple[Log, Log]:
        """(earlier, later) rows inside the calibration weeks: what hyperparameters may see.

        ``calibration``, the fold's own log where it is open, is not read a second time.
        """
        if len(self.calibration) == 1:
            return hold_out(self.calibration_log(engine) if calibration is None else calibration)
        if isinstance(calibration, SummedLog):
            return calibration.cut_last_window()
        return self._read(engine, self.calibration[:-1]), engine.read(self.calibration[-1])

    def _read(self, engine: Engine, windows: tuple[Path, ...]) -> Log:
        return open_windows(engine, windows) if self.summed else engine.read(windows)

    def as_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "role": self.role,
            "window": self.window.as_dict(),
            "calibration": [str(path) for path in self.calibration],
            "test": None if self.test is None else str(self.test),
            "hold_out": self.hold_out,
        }

    @classmethod
    def from_dict(cls, value: dict[str, Any]) -> "Fold":
        """Read what :meth:`as_dict` wrote."""
        return cls(
            role=value["role"],
            window=Window.from_dict(value["window"]),
            calibration=tuple(Path(path) for path in value["calibration"]),
            test=None if value["test"] is None else Path(value["test"]),
            hold_out=value["hold_out"],
        )


@dataclass(frozen=True)
class FoldPlan:
    """The folds, oldest first, the confirming one last; and what is missing, in words."""

    folds: tuple[Fold, ...]
    notes: tuple[str, ...] = ()

    @property
    def choosing(self) -> tuple[Fold, ...]:
        """The folds that decide which method is proposed."""
        return self.folds[:-1]

    @property
    def confirming(self) -> Fold:
        """The fold that decides whether the proposal is promoted."""
        return self.folds[-1]

    def as_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {"folds": [fold.as_dict() for fold in self.folds], "notes": list(self.notes)}

    @classmethod
    def from_dict(cls, value: dict[str, Any]) -> "FoldPlan":
        """Read what :meth:`as_dict` wrote."""
        return cls(tuple(Fold.from_dict(fold) for fold in value["folds"]), tuple(value["notes"]))


def hold_out(log: Log) -> tuple[Log, Log]:
    """Cut a log where 70 % of its rows lie before; rows of the same timestamp stay together."""
    if not log.has("event_time"):
        raise InputError("a window without event_time cannot be cut into an earlier and a later part")
    return log.cut(float(time_quantiles(log, np.array([1 - HOLD_OUT]))[0]))


def plan_folds(
    windows: Sequence[tuple[Window, Path]], *, calibration_weeks: int, folds: int, summed: bool = False
) -> FoldPlan:
    """Lay out the folds over the windows that exist; gaps are left out and noted, never filled."""
    files = dict(sorted(windows))
    if not files:
        raise InputError("a backtest needs windows; there are none")
    newest = max(files)
    notes = []
    planned = []
    for window in [*newest.before(folds - 1), newest]:
        calibration = tuple(files[w] for w in window.before(calibration_weeks) if w in files)
        if window not in files:
            notes.append(f"window {window} has no rows, so there is no fold on it")
        elif not calibration:
            notes.append(f"nothing before window {window} to learn from, so there is no fold on it")
        else:
            if len(calibration) < calibration_weeks:
                notes.append(
                    f"the fold on {window} learns from {len(calibration)} of {calibration_weeks} "
                    "calibration weeks; the others have no rows"
                )
            role: Role = "confirm" if window == newest else "choose"
            planned.append(Fold(role, window, calibration, files[window], summed=summed))
    if not planned or planned[-1].window != newest:
        raise InputError(
            f"the newest window {newest} has no earlier window among its {calibration_weeks} calibration "
            "weeks; at least one is needed to learn from"
        )
    if len(planned) == 1:
        notes.append(
            "there is no older fold, so the method was chosen on a forward hold-out inside the "
            "calibration weeks of the newest window"
        )
        planned.insert(0, _hold_out(newest, planned[0], files))
    return FoldPlan(tuple(planned), tuple(notes))


def _hold_out(newest: Window, confirming: Fold, files: dict[Window, Path]) -> Fold:
    """The last calibration week is held out; a single week is cut in time."""
    calibration, summed = confirming.calibration, confirming.summed
    last = max(window for window in files if window < newest)
    if len(calibration) > 1:
        return Fold("choose", last, calibration[:-1], calibration[-1], hold_out=True, summed=summed)
    return Fold("choose", last, calibration, None, hold_out=True)
