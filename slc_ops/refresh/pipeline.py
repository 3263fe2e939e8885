"""The refresh of a window: one order of steps for command line, backfills, controls and offline backtests.

Every step is a plain function with small arguments and results, and its output on disk. A step returns its
finished output if there is one, so that a retry, a second run of the same window or a crash costs only the
missing part. The Airflow DAG runs the same functions, one task each::

    extract → validate → fit (per fold) → backtest → detectability → decide → publish → promote

``validate`` returns a :class:`~slc_ops.refresh.plan.Plan`, which identifies the refresh: deployment, window,
the windows of its fits, and the key of all later output.
"""

import time
from collections.abc import Callable
from typing import Literal, TypeVar

from slc_ops.base.memory import give_memory_back
from slc_ops.base.window import Window
from slc_ops.refresh.backbone import note_backbone
from slc_ops.refresh.champion import ChampionReference
from slc_ops.refresh.evidence import backtest, decide, detectability, fit
from slc_ops.refresh.fitting import folds_of
from slc_ops.refresh.gate import promote_if_allowed as promote
from slc_ops.refresh.plan import Plan, read_plan
from slc_ops.refresh.publishing import publish, write_report
from slc_ops.refresh.versions import outcomes
from slc_ops.refresh.window_rules import check_no_overlap, check_on_grid
from slc_ops.refresh.windows import extract, validate
from slc_ops.settings.deployments import Deployment
from slc_ops.settings.environment import Installation

__all__ = [
    "backtest", "decide", "detectability", "extract", "fit", "folds_of", "note_backbone", "promote",
    "publish", "read_plan", "refresh", "validate", "write_report",
]  # fmt: skip

T = TypeVar("T")


def refresh(
    installation: Installation,
    name: str,
    window: Window,
    *,
    settings: Deployment | None = None,
    champion: ChampionReference | None = None,
    until: Literal["backtest", "decide", "publish", "promote"] = "promote",
    off_grid: bool = False,
    tell: Callable[[str], None] = lambda text: None,
) -> Plan:
    """Run all steps in order and return the plan, whose files contain all results.

    Args:
        settings: Replaces the deployment's settings.
        champion: Replaces the ledger's champion in the backtest.
        until: The last step: ``publish`` for a backfill, ``decide`` for a control or an offline backtest,
            ``backtest`` for a replayed window without a scheduled refresh.
        off_grid: Allow a window off the deployment's grid or overlapping with a refreshed one.
        tell: Called with a line for every finished step and its time.

    Raises:
        SettingsError: The window is off the grid or overlaps.
        ValidationStopped: Validation stopped the window.
    """
    installation = installation.with_settings(name, settings)
    if not off_grid:
        check_window(installation, name, window)

    def run(step: str, function: Callable[[], T]) -> T:
        begun = time.perf_counter()
        result = function()
        give_memory_back()
        tell(f"{step:<16} {time.perf_counter() - begun:6.1f} s")
        return result

    run("extract", lambda: extract(installation, name, window))
    plan = run("validate", lambda: read_plan(validate(installation, name, window)))
    if until == "promote" and (change := note_backbone(installation, plan)) is not None:
        tell(change.sentence)
    for fold in folds_of(plan).folds:
        run(f"fit {fold.window}", lambda fold=fold: fit(plan, fold))  # type: ignore[misc] # a default binds the fold
    run("backtest", lambda: backtest(installation, plan, champion))
    if until == "backtest":
        return plan
    run("detectability", lambda: detectability(plan))
    run("decide", lambda: decide(plan))
    if until == "decide":
        return plan
    run("publish", lambda: publish(installation, plan))
    if until == "promote":
        tell(run("promote", lambda: promote(installation, plan)))
    return plan


def check_window(installation: Installation, name: str, window: Window, *, hint: str = "--off-grid") -> None:
    """Raise :class:`SettingsError` for a window off the grid, or overlapping with a refreshed one."""
    cadence = installation.deployment(name).cadence
    check_on_grid(window, cadence, name, hint=hint)
    refreshed = [Window.from_dict(found[-1][1].window) for found in outcomes(installation.refreshes(name))]
    check_no_overlap(window, refreshed, cadence, name, hint=hint)
