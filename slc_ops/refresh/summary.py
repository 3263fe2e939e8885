"""The result of a refresh as text and as JSON."""

from typing import TYPE_CHECKING, Any

from slc_ops.base.console import print_lines, print_table, say
from slc_ops.base.text import MISSING, points
from slc_ops.refresh.evidence import read_backtest, read_verdict
from slc_ops.refresh.plan import Plan
from slc_ops.refresh.versions import version_of
from slc_ops.settings.environment import Installation

if TYPE_CHECKING:
    from slc_ops.evidence.metrics import Metric
    from slc_ops.evidence.results import Backtest
    from slc_ops.evidence.uncertainty import Interval


def refresh_summary(installation: Installation, plan: Plan) -> dict[str, Any]:
    """Return the JSON form: verdict, version, and the methods on the newest window."""
    backtest = read_backtest(plan)
    verdict, version = read_verdict(plan), version_of(plan.files)
    return {
        "deployment": plan.deployment,
        "window": plan.window.as_dict(),
        "verdict": verdict["verdict"],
        "method": verdict["method"],
        "sentence": verdict["sentence"],
        "reasons": verdict["reasons"],
        "warnings": [
            f"{each['code']}: {each['sentence']}, found {each['observed']}, {each['expected']}"
            for each in plan.newest.validation["findings"]
        ],
        "version": None if version is None else version.number,
        "methods": {
            name: None if score.metrics is None else score.metrics.as_dict()
            for name, score in backtest.newest.items()
        },
        "report": str(plan.files.report_page),
        "tracking_uri": installation.tracking_uri,
    }


def print_refresh(installation: Installation, plan: Plan) -> None:
    """Print the comparison table, the verdict with its reasons, the version, and the report's path."""
    backtest = read_backtest(plan)
    summary = refresh_summary(installation, plan)
    called = plan.window.called
    title = f"{plan.deployment}, {called} {plan.window}, fitted on the {called}s before"
    # JSON has no order of methods: show the ladder, then the champion.
    shown = [*backtest.methods, *(name for name in backtest.newest if name not in backtest.methods)]
    rows = [_row(name, backtest) for name in shown]
    print_table(title, ["method", *_columns()], rows)
    say(f"\nVerdict: {summary['verdict'].upper()} {summary['method'] or ''}")
    marks = {"pass": "✓", "hold": "?", "reject": "✗"}
    reasons = [f"  {marks.get(each['effect'], '·')} {each['sentence']}" for each in summary["reasons"]]
    print_lines(reasons, indent="    ")
    if summary["warnings"]:
        say("\nValidation warns:")
        print_lines([f"  ! {each}" for each in summary["warnings"]], indent="    ")
    if summary["version"] is not None:
        say(f"\nVersion: {summary['version']} of slc-{plan.deployment} in {installation.tracking_uri}")
    say(f"Report:  {summary['report']}")


def _columns() -> list[str]:
    """Return each metric, with the difference to Platt for paired ones; for AUC in percentage points."""
    from slc_ops.evidence.metrics import headline_metrics

    columns = []
    for metric in headline_metrics():
        gain = ["pp over Platt" if metric.name == "auc" else f"Δ {metric.title}"] if metric.paired else []
        columns += [metric.title, *gain]
    return columns


def _row(name: str, backtest: "Backtest") -> list[str]:
    from slc_ops.evidence.metrics import headline_metrics

    score = backtest.newest[name]
    if score.metrics is None:
        return [name, MISSING, score.error or "no number", *[MISSING] * (len(_columns()) - 2)]
    against = None if name == "platt" else backtest.differences.get(name, {}).get("platt")
    cells = []
    for metric in headline_metrics():
        cells.append(metric.text(score.metrics[metric.name]))
        if metric.paired:
            cells.append("" if against is None else _gain(metric, against[metric.name]))
    return [name, *cells]


def _gain(metric: "Metric", found: "Interval") -> str:
    if metric.name != "auc":
        return metric.signed(found.estimate)
    return points(found.estimate) if found.low == found.high else found.text(points)
