"""Trust a window, trust it without its bad rows, or stop: the Great Expectations suite decides."""

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
    """Hand this to :func:`slc_ops.intake.extract.extract`, and :func:`validate` need not read the rows."""
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

    Changes stop only against three windows or more, and not where the window before was ``found_before`` to
    have them, too: then they are news.

    Rows whose event an ``earlier`` window had are put aside; where they are many, the window stops.

    Writes ``validation.json``, ``validation.html`` and, where rows failed, ``quarantine.parquet`` and
    ``clean.parquet`` beside the window. Raises :class:`~slc_ops.base.errors.ValidationStopped` when a
    critical expectation is not met, with the files already written. Validating again costs one read.
    ``engine`` looks at the rows; None: this process. Without the ``suite`` its rules are applied here, which
    is a hundred times as fast, and no page is written.
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
