"""The refresh of a window: one order of steps for command line, backfills, controls and offline backtests.

Every step is a plain function: small values in, small values out, its results on disk. A step that finds its
finished output returns it, so that a retry, a second run of the same window or a crash in the middle costs
only what is missing. The Airflow DAG runs the same functions, one task each::

    extract → validate → fit (per fold) → backtest → detectability → decide → publish → promote

``validate`` ends in a :class:`~slc_ops.refresh.plan.Plan`, which names the refresh: deployment, window, the
windows it learns from, and the key under which everything after it is stored.
"""

import time
from collections.abc import Callable, Collection
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
from slc_ops.refresh.schedule import check_window
from slc_ops.refresh.windows import extract, validate
from slc_ops.settings.deployments import Deployment, Installation

__all__ = [
    "backtest", "decide", "detectability", "extract", "fit", "folds_of", "note_backbone", "promote",
    "publish", "read_plan", "refresh", "validate", "write_report",
]  # fmt: skip

OptionalStep = Literal["decide", "publish", "promote"]
T = TypeVar("T")


def refresh(
    installation: Installation,
    name: str,
    window: Window,
    *,
    settings: Deployment | None = None,
    champion: ChampionReference | None = None,
    leave_out: Collection[OptionalStep] = (),
    off_grid: bool = False,
    tell: Callable[[str], None] = lambda text: None,
) -> Plan:
    """All steps in order; returns the plan, whose files hold everything that was worked out.

    ``settings`` and ``champion`` replace the deployment's own. A backfill leaves out ``promote``, a control
    and an offline backtest leave out ``publish`` too, a replay of a window without a scheduled refresh also
    ``decide``. A window off the deployment's grid, or one that
    overlaps with a refreshed one, is refused unless ``off_grid``. ``tell`` hears of every finished step and
    its time.
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
    if (
        not {"publish", "promote"} & set(leave_out)
        and (change := note_backbone(installation, plan)) is not None
    ):
        tell(change.sentence)
    for fold in folds_of(plan).folds:
        run(f"fit {fold.window}", lambda fold=fold: fit(plan, fold))  # type: ignore[misc]
    run("backtest", lambda: backtest(installation, plan, champion))
    if "decide" in leave_out:
        return plan
    run("detectability", lambda: detectability(plan))
    run("decide", lambda: decide(plan))
    if "publish" not in leave_out:
        run("publish", lambda: publish(installation, plan))
        if "promote" not in leave_out:
            tell(run("promote", lambda: promote(installation, plan)))
    return plan
