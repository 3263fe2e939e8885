"""What a refresh came to, for people and for machines."""

from typing import TYPE_CHECKING, Any

import click

from slc_ops.base.console import print_table
from slc_ops.base.files import read_json
from slc_ops.refresh.plan import Plan
from slc_ops.settings.deployments import Places

if TYPE_CHECKING:
    from slc_ops.evidence.backtest import Backtest


def refresh_summary(places: Places, plan: Plan) -> dict[str, Any]:
    """The JSON form: verdict, version, and the methods on the newest window."""
    backtest = _backtest(plan)
    verdict = read_json(plan.directory / "verdict.json")
    version = plan.directory / "version.json"
    return {
        "deployment": plan.deployment,
        "window": plan.window.as_dict(),
        "verdict": verdict["verdict"],
        "method": verdict["method"],
        "sentence": verdict["sentence"],
        "reasons": verdict["reasons"],
        "version": read_json(version)["version"] if version.exists() else None,
        "methods": {
            name: None if score.metrics is None else score.metrics.as_dict()
            for name, score in backtest.newest.items()
        },
        "report": str(plan.directory / "report" / "report.html"),
        "tracking_uri": places.tracking_uri,
    }


def print_refresh(places: Places, plan: Plan) -> None:
    """The comparison table, the verdict with its reasons, the version, and where the report lies."""
    backtest = _backtest(plan)
    summary = refresh_summary(places, plan)
    title = f"{plan.deployment}, week {plan.window}, fitted on the weeks before"
    # JSON keeps no order of methods; the ladder does, and the champion closes it.
    shown = [*backtest.methods, *(name for name in backtest.newest if name not in backtest.methods)]
    rows = [_row(name, backtest) for name in shown]
    print_table(None, title, ["method", "AUC", "pp over Platt", "NLL", "Δ Platt", "ECE"], rows)
    click.echo(f"\nVerdict: {summary['verdict'].upper()} {summary['method'] or ''}")
    for reason in summary["reasons"]:
        mark = {"pass": "✓", "hold": "?", "reject": "✗"}.get(reason["says"], "·")
        click.echo(f"  {mark} {reason['sentence']}")
    if summary["version"] is not None:
        click.echo(f"\nVersion: {summary['version']} of slc-{plan.deployment} in {places.tracking_uri}")
    click.echo(f"Report:  {summary['report']}")


def _backtest(plan: Plan) -> "Backtest":
    from slc_ops.evidence.backtest import Backtest

    return Backtest.from_dict(read_json(plan.directory / "backtest.json"))


def _row(name: str, backtest: "Backtest") -> list[str]:
    score = backtest.newest[name]
    if score.metrics is None:
        return [name, "–", score.error or "no number", "–", "", "–"]
    metrics = score.metrics
    against = backtest.differences.get(name, {}).get("platt")
    if against is None or name == "platt":
        gain = loss = ""
    else:
        gain = _points(against.auc.estimate)
        if against.auc.low is not None and against.auc.low != against.auc.high:
            gain += f" [{_points(against.auc.low)}, {_points(against.auc.high)}]"
        loss = _figure(against.nll.estimate, "+.4f")
    return [name, _figure(metrics.auc), gain, _figure(metrics.nll), loss, _figure(metrics.ece)]


def _points(value: float | None) -> str:
    """A difference of AUCs in percentage points."""
    return _figure(None if value is None else 100 * value, "+.2f")


def _figure(value: float | None, form: str = ".4f") -> str:
    return "–" if value is None else format(value, form)
