"""Validation of a window by the Great Expectations suite: accept, accept without bad rows, or stop."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from slc_ops.base.window import Window
from slc_ops.intake.manifest import WindowManifest
from slc_ops.quality.result import Finding, ValidationResult
from slc_ops.settings.deployments import Deployment

if TYPE_CHECKING:
    from slc_ops.quality.statistics import RowStatistics
    from slc_ops.rows.engine import Engine

__all__ = ["Finding", "ValidationResult", "observer", "validate"]


def observer(window: Window, deployment: Deployment) -> "RowStatistics":
    """Return an observer for :func:`slc_ops.intake.extract.extract`; :func:`validate` then reads no rows."""
    from slc_ops.quality.statistics import RowStatistics

    return RowStatistics(window, deployment.quality.logit_limit)


def validate(
    manifest: WindowManifest,
    trailing: Sequence[WindowManifest],
    deployment: Deployment,
    engine: "Engine | None" = None,
    *,
    suite: bool = True,
    earlier: Sequence[WindowManifest] = (),
    weekdays: Sequence[WindowManifest] | None = None,
    found_before: frozenset[str] = frozenset(),
) -> ValidationResult:
    """Validate a window against the trailing windows (oldest first), its rows against ``weekdays`` if given.

    Changes stop only against three or more windows, and not if the previous window had them, too
    (``found_before``): then they are accepted as real. Rows with an event of an ``earlier`` window are
    quarantined; above the budget they stop the window.

    Writes ``validation.json``, ``validation.html`` and, if rows failed, ``quarantine.parquet`` and
    ``clean.parquet`` beside the window. Raises :class:`~slc_ops.base.errors.ValidationStopped` if a critical
    expectation fails, after writing the files. Validating again costs one read. ``engine`` processes the rows
    (None: this process). Without ``suite`` its rules are applied directly, a hundred times as fast, and no
    page is written.
    """
    from slc_ops.quality.verdict import validate_against_history
    from slc_ops.rows.engine import LOCAL

    return validate_against_history(
        manifest,
        trailing,
        deployment.quality,
        engine or LOCAL,
        suite=suite,
        earlier=earlier,
        weekdays=weekdays,
        found_before=found_before,
    )
