"""Timetable without a cron expression: a run starts when a window is over and its labels are due.

A cron expression cannot express fourteen days, nor wait for labels without a shift of its data interval.
With this timetable the data interval of a run **is** the span of windows that it refreshes, also in
backfills, catch-up and the UI; the run starts ``lag`` after the end of that span.
"""

from datetime import date, datetime, timedelta
from typing import Any

from airflow.sdk.timezone import coerce_datetime, utcnow
from airflow.timetables.base import DagRunInfo, DataInterval, TimeRestriction, Timetable

from slc_ops.base.window import Cadence, Window


class WindowTimetable(Timetable):  # type: ignore[misc]  # Airflow carries no usable types
    """Runs of ``every`` windows of a cadence, ``lag`` after their end."""

    description = "When a window is over and its labels are due"

    def __init__(self, cadence: Cadence, lag: timedelta = timedelta(), every: int = 1) -> None:
        self.cadence, self.lag, self.every = cadence, lag, every
        self.spans = Cadence(cadence.days * every, cadence.anchor, cadence.zone)

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> "WindowTimetable":
        """Restore a timetable from :meth:`serialize`."""
        cadence = Cadence(data["days"], date.fromisoformat(data["anchor"]), data["zone"])
        return cls(cadence, timedelta(seconds=data["lag"]), data["every"])

    def serialize(self) -> dict[str, Any]:
        """Return all settings as JSON values."""
        return {
            "days": self.cadence.days,
            "anchor": self.cadence.anchor.isoformat(),
            "zone": self.cadence.zone,
            "lag": self.lag.total_seconds(),
            "every": self.every,
        }

    @property
    def summary(self) -> str:
        """The text in the list of DAGs."""
        often = f"every {f'{self.every} × ' if self.every > 1 else ''}{self.cadence.name}"
        return often if not self.lag else f"{often}, after {self.lag / timedelta(days=1):g} days"

    def infer_manual_data_interval(self, *, run_after: datetime) -> DataInterval:
        """Return the newest span that was due, for a manual run."""
        return _interval(self._due(run_after))

    def next_dagrun_info(
        self, *, last_automated_data_interval: DataInterval | None, restriction: TimeRestriction
    ) -> DagRunInfo | None:
        """Return the span after the last one; without catch-up, at least the newest that is due now."""
        candidates = []
        if last_automated_data_interval is not None:
            candidates.append(self._from(last_automated_data_interval.end))
        if restriction.earliest is not None:
            candidates.append(self._from(restriction.earliest))
        if not candidates:
            return None
        if not restriction.catchup:
            candidates.append(self._due(utcnow()))
        span = max(candidates)
        if restriction.latest is not None and span.start > restriction.latest:
            return None
        return DagRunInfo(run_after=coerce_datetime(span.end + self.lag), data_interval=_interval(span))

    def _due(self, timestamp: datetime) -> Window:
        return self.spans.complete_at(timestamp - self.lag)

    def _from(self, timestamp: datetime) -> Window:
        """Return the first span that begins at ``timestamp`` or later."""
        span = self.spans.containing(timestamp)
        return span if span.start == timestamp else self.spans.containing(span.end)


def _interval(span: Window) -> DataInterval:
    return DataInterval(coerce_datetime(span.start), coerce_datetime(span.end))
