"""The step ``publish``: the chosen method with the newest week, the report, the registered version."""

from pathlib import Path
from typing import Any

from slc_ops.base.files import digest_json, read_json, write_json
from slc_ops.observability.steps import observed
from slc_ops.refresh.evidence import decide, engine_of_plan, fit_options, read_backtest
from slc_ops.refresh.plan import Plan
from slc_ops.settings.deployments import Places


@observed
def publish(places: Places, plan: Plan) -> int | None:
    """Refit the chosen method with the newest week, write the report, register; returns the version.

    Where no method has evidence on every fold there is nothing to register, only a report. A verdict that was
    redone (against another champion) replaces the report and what the version says of itself.
    """
    from slc_ops.registry import Publication, Registry

    verdict = decide(plan)
    said = digest_json(verdict)
    files = plan.files
    published = read_json(files.version) if files.version.exists() else {}
    if not files.report_page.exists() or published.get("verdict") != said:
        write_report(plan)
    if verdict["method"] is None:
        return None
    publication = Publication(
        deployment=plan.deployment,
        window=plan.window,
        method=verdict["method"],
        parameters=refit(plan, verdict),
        verdict=verdict,
        metrics=headline(plan, verdict["method"]),
        input_digest=plan.input_digest,
        config_digest=plan.config_digest,
        code_version=plan.code_version,
        artifacts={
            "report": files.report,
            "detectability": files.detectability,
            "backtest": files.backtest,
            "validation": Path(plan.newest.validation["result_path"]),
            "data-docs": Path(plan.newest.validation["docs_path"]),
        },
    )
    registry = Registry.open(places)
    version = registry.publish(publication)
    if version.verdict != verdict["verdict"] or published.get("verdict", said) != said:
        registry.restate(version, publication)
    write_json(files.version, {"version": version.number, "run_id": version.run_id, "verdict": said})
    return version.number


def published_version(plan: Plan) -> int | None:
    """The version that the refresh registered; None where it has registered none."""
    found = plan.files.version
    return int(read_json(found)["version"]) if found.exists() else None


def write_report(plan: Plan, page: Path | None = None) -> Path:
    """Write (or write again) the HTML report of a decided refresh; returns its file."""
    from slc_ops.reporting import write_report as write

    verdict = decide(plan)
    return write(
        page or plan.files.report_page,
        backtest=read_json(plan.files.backtest),
        verdict=verdict,
        detectability=plan.files.detectability,
        parameters=None if verdict["method"] is None else refit(plan, verdict),
        validation=plan.newest.validation,
        plan=plan.as_dict(),
    )


def refit(plan: Plan, verdict: dict[str, Any]) -> Path:
    """The chosen method fitted on the windows that the plan learns from, the refreshed one included."""
    from dataclasses import replace

    from slc_ops.methods import fit as fit_method
    from slc_ops.numerics.window_sums import open_windows

    target = plan.files.parameters
    if not target.exists():
        log = open_windows(engine_of_plan(plan), [each.log for each in plan.learned])
        options = replace(fit_options(plan), **verdict.get("options", {}))
        parameters = fit_method(verdict["method"], log, options=options)
        versions = log.backbone_versions
        parameters.with_provenance(
            deployment=plan.deployment,
            window=plan.window,
            backbone_version=versions[0] if len(versions) == 1 else None,
            input_digest=plan.input_digest,
            config_digest=plan.config_digest,
            code_version=plan.code_version,
            on_backbone_mismatch=None
            if (rule := plan.settings.get("on_backbone_mismatch")) == "frozen"
            else rule,
        ).write(target)
    return target


def headline(plan: Plan, method: str) -> dict[str, Any]:
    """A version's figures, of the newest window: the method's own, Platt's, and the difference."""
    from slc_ops.evidence.metrics import METRICS, paired_metrics

    found = read_backtest(plan)
    own, platt = found.newest[method].metrics, found.newest["platt"].metrics
    gain = found.differences.get(method, {}).get("platt")
    paired = [metric.name for metric in paired_metrics()]
    return {
        **{name: None if own is None else own[name] for name in METRICS},
        **{f"platt_{name}": None if platt is None else platt[name] for name in paired},
        "vs_platt": {
            name: {
                part: None if gain is None else getattr(gain[name], part)
                for part in ("estimate", "low", "high")
            }
            for name in paired
        },
    }
