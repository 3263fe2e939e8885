"""Open the rows of one fold once for all methods, with all data that does not depend on the method."""

from dataclasses import replace

import numpy as np

from slc_ops.base.threads import Once, once
from slc_ops.evidence.folds import Fold
from slc_ops.evidence.slices import Slicing, by_density, by_group, by_time
from slc_ops.methods import FitOptions
from slc_ops.methods.fitting.calibration import Calibration
from slc_ops.methods.fitting.prior_sample import item_sample
from slc_ops.methods.fitting.summed_log import SummedLog
from slc_ops.rows.engine import LOCAL, Engine
from slc_ops.rows.rows import Log


class FoldRows:
    """The data that a fold's methods share; each part is computed once, by one thread, on first use."""

    def __init__(
        self,
        fold: Fold,
        engine: Engine = LOCAL,
        options: FitOptions | None = None,
        *,
        long_memory: bool = False,
        forgets: bool = False,
    ) -> None:
        """Prepare a fold; nothing is read yet.

        ``long_memory``: a method reads the long memory, which includes the calibration rows. ``forgets``: a
        method also reads the rows before it.
        """
        self.fold, self.engine, self.options = fold, engine, options or FitOptions()
        self._long_memory, self._forgets = long_memory, forgets
        self._once = Once()

    @once
    def calibration(self) -> Calibration:
        """The calibration rows and their sums."""
        if self.fold.test is None:
            log = self._cut[0]
        elif self._long_memory and self.long is not None and isinstance(self.long.log, SummedLog):
            log = self.long.log.last_windows(len(self.fold.calibration))
        else:
            log = self.fold.calibration_log(self.engine)
        return self._prepared(log)

    @once
    def long(self) -> Calibration | None:
        """The long memory; None if it is no longer than the calibration."""
        long = len(self.fold.offsets) > len(self.fold.calibration)
        if long and self._forgets and self.older is not None and isinstance(self.older.log, SummedLog):
            return self._prepared(self.older.log.last_windows(len(self.fold.offsets)))
        log = self.fold.long_log(self.engine)
        return None if log is None else self._prepared(log)

    def _prepared(self, log: Log) -> Calibration:
        found = Calibration(log, None, self.options, None, self.fold.starts)
        found.keep_rows = self._forgets  # slc_eb and slc_mix select on the same rows
        return found

    @once
    def older(self) -> Calibration | None:
        """The rows of methods that forget, with their decay; None if nothing is forgotten."""
        log = self.fold.older_log(self.engine)
        return (
            None if log is None else Calibration(log, None, self.options, self.fold.forget, self.fold.starts)
        )

    @once
    def test(self) -> Log:
        """The test rows, all later than the calibration rows."""
        return self._cut[1] if self.fold.test is None else self.fold.test_log(self.engine)

    @once
    def _cut(self) -> tuple[Log, Log]:
        return self.fold.cut(self.engine)

    @once
    def tuning(self) -> tuple[Calibration, Log]:
        """The (earlier, later) rows inside the calibration windows, for tuning hyperparameters.

        For a large log, all rows of a sample of items.
        Raises :class:`~slc_ops.base.errors.InputError` if the rows cannot be cut in time.
        """
        logs = self.fold.tuning_logs(self.engine, self.calibration.log)
        earlier, later = item_sample(*logs) or logs
        return Calibration(earlier, None, self.options), later

    @once
    def slicings(self) -> tuple[Slicing, ...]:
        """The slicings of the test rows: by time; on the newest window also by density and group."""
        found = [by_time(self.test, self.fold.window)]
        if self.fold.newest:
            found = [by_density(self.calibration.log, self.test), by_group(self.test), *found]
        return tuple(_worked_out(slicing, self.test) for slicing in found)


def _worked_out(slicing: Slicing, test: Log) -> Slicing:
    """Return the slicing with precomputed row numbers if the rows are in memory."""
    log = test.in_memory()
    if log is None or not slicing.parts:
        return slicing
    kind = np.int8 if len(slicing.parts) <= np.iinfo(np.int8).max else np.int16
    number = slicing.number_of(log.rows(0, log.n_rows, slicing.columns)).astype(kind)
    return replace(slicing, number_of=lambda rows: number)
