"""The step ``publish``: the report, and the decided method's parameters as a registered version."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from slc_ops.base.digests import digest_json
from slc_ops.base.files import read_json
from slc_ops.base.json_form import read_as
from slc_ops.base.lineage import Data, lineage
from slc_ops.base.methods import FROZEN, REFERENCES
from slc_ops.intake.manifest import LOG
from slc_ops.refresh.evidence import read_backtest, read_verdict
from slc_ops.refresh.fitting import renewal_of
from slc_ops.refresh.observed import observed
from slc_ops.refresh.plan import Plan
from slc_ops.refresh.versions import Registered, outcomes, record_version, version_of
from slc_ops.settings.environment import Installation, registered_model

if TYPE_CHECKING:
    from slc_ops.evidence.results import Served
    from slc_ops.evidence.series import Statistic


@observed
def publish(installation: Installation, plan: Plan) -> int | None:
    """Write the report and register the decided method, fitted up to the newest window; return the version.

    If the frozen model is to serve, or the method could not be fitted, only a report is written and None is
    returned. If a change of method is held or waits for a person, the serving method is registered first,
    with new parameters. A recomputed verdict (against another champion) replaces the report and the version's
    verdict.
    """
    verdict, files = read_verdict(plan), plan.files
    said = digest_json(verdict)
    published = version_of(files)
    stale = not files.report_page.exists() or published is None or published.verdict != said
    if stale and not installation.rehearsal:
        write_report(plan)
    if _waits(installation, plan, verdict):
        publish_renewal(installation, plan, verdict)
    if verdict["method"] is None or not files.parameters.exists():
        return None
    return _register(installation, plan, verdict, "decided", files.parameters)


def _waits(installation: Installation, plan: Plan, verdict: dict[str, Any]) -> bool:
    """Return True if a change of method is delayed, by the verdict or by the gate.

    If the champion is of this window or a later one, there is nothing to renew either.
    """
    if verdict["kind"] not in ("change", "retire") or verdict["champion"]["status"] == "saw_window":
        return False
    held = verdict["verdict"] == "hold" or verdict["method"] in verdict["champion"]["taken_back"]
    return held or installation.deployment(plan.deployment).gate != "auto"


def publish_renewal(installation: Installation, plan: Plan, verdict: dict[str, Any]) -> None:
    """Register new parameters of the serving method once, while a change is held.

    A method that is no longer fitted, or whose parameters moved too far, is not renewed.
    """
    files, current = plan.files, verdict["decision"]["current"]
    score = read_backtest(plan).newest.get(current)
    if (
        version_of(files, "renewal") is not None
        or current == FROZEN
        or score is None
        or score.metrics is None
    ):
        return
    renewal = renewal_of(plan, current, score.options, files.renewed_parameters)
    if not renewal.accepted:
        return
    own = verdict | {
        "verdict": "promote",
        "kind": "renewal",
        "method": current,
        "renewal": renewal.as_dict(),
        "sentence": f"Renew {current} with {plan.window}, while a change to "
        f"{verdict['method'] or 'the frozen model'} is held.",
    }
    _register(installation, plan, own, "renewal", files.renewed_parameters)


def _register(
    installation: Installation,
    plan: Plan,
    verdict: dict[str, Any],
    kind: Literal["decided", "renewal"],
    parameters: Path,
) -> int:
    """Register a parameter set as a version, and record it in the refresh; return its number."""
    from slc_ops.registry import Publication, Registry
    from slc_ops.registry.publication import EVALUATION, TRAINING

    files, said, method = plan.files, digest_json(verdict), str(verdict["method"])
    page = Path(plan.newest.validation["docs_path"])  # only the newest windows keep their pages
    published = version_of(files, kind)
    publication = Publication(
        deployment=plan.deployment,
        window=plan.window,
        method=method,
        parameters=parameters,
        verdict=verdict,
        metrics=headline(plan, method, verdict),
        input_digest=plan.input_digest,
        config_digest=plan.config_digest,
        code_version=plan.code_version,
        data={
            TRAINING: {str(each.window): each.digest for each in plan.learned},
            EVALUATION: {str(plan.window): plan.newest.digest},
        },
        artifacts={
            "report": files.report,
            "detectability": files.detectability,
            "backtest": files.backtest,
            "validation": Path(plan.newest.validation["result_path"]),
        }
        | ({"data-docs": page} if page.exists() else {}),
    )
    registry = Registry.open(installation)

    def reads() -> list[Data]:
        windows = {each.window: each for each in (*plan.learned, plan.newest)}
        return [
            Data("file", str(installation.windows(plan.deployment) / window.key / LOG), each.digest)
            for window, each in windows.items()
        ]

    with lineage("publish", plan.deployment, plan.window, reads, silent=installation.rehearsal) as written:
        version = registry.publish(publication)
        registered = registered_model(plan.deployment)
        written.append(Data(lineage_namespace(installation.registry_uri), registered, str(version.number)))
    if version.verdict != verdict["verdict"] or (published is not None and published.verdict != said):
        registry.restate(version, publication)
    record_version(files, Registered(version.number, kind, method, parameters.name, version.run_id, said))
    return version.number


def lineage_namespace(registry_uri: str) -> str:
    """Return a registry as a namespace of data sets: scheme and address, without user and password.

    >>> lineage_namespace("http://ann:x@mlflow.example:5000/"), lineage_namespace("sqlite:////data/mlflow.db")
    ('mlflow+http://mlflow.example:5000', 'mlflow+sqlite:///data/mlflow.db')
    """
    parts = urlsplit(registry_uri)
    return (
        f"mlflow+{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.removeprefix('/').rstrip('/')}"
    )


def write_report(plan: Plan, page: Path | None = None) -> Path:
    """Write (or rewrite) the HTML report of a decided refresh; return its file."""
    from slc_ops.reporting import write_report as write

    verdict = read_verdict(plan)
    return write(
        page or plan.files.report_page,
        backtest=read_json(plan.files.backtest),
        verdict=verdict,
        detectability=plan.files.detectability,
        parameters=plan.files.parameters if verdict["method"] and plan.files.parameters.exists() else None,
        validation=plan.newest.validation,
        plan=plan.as_dict(),
        served=list(served_before(plan)),
    )


def served_before(plan: Plan) -> "Iterator[Served]":
    """Yield the served results of the plan's earlier windows, oldest first, if their refreshes are kept."""
    from slc_ops.evidence.results import Served

    for each in plan.windows[:-1]:
        for decided in outcomes(plan.files.refreshes, each.window):
            _, newest = decided[-1]
            if newest.served is not None:
                yield read_as(Served, newest.served)


def headline(plan: Plan, method: str, verdict: dict[str, Any]) -> dict[str, Any]:
    """Return a version's metrics on the newest window: the method, Platt, their difference, the champion.

    The method's own are those of its fit before the window; ``served`` are those of the champion at that
    time, ``series`` the method's mean differences in NLL over the evidence windows, ``since_start`` over the
    windows that it has served.
    """
    from slc_ops.evidence.metrics import METRICS, paired_metrics
    from slc_ops.evidence.results import served_on
    from slc_ops.evidence.uncertainty import Interval
    from slc_ops.evidence.verdict import since_start_of, statistic_of

    found = read_backtest(plan)
    own, platt = found.newest[method].metrics, found.newest["platt"].metrics
    gain = found.differences.get(method, {}).get("platt")
    served = served_on(found)
    series = {r: each for r in REFERENCES if (each := statistic_of(verdict, method, r)) is not None}
    paired = [metric.name for metric in paired_metrics()]
    began = since_start_of(verdict) if verdict["decision"]["current"] == method else None
    return {
        **({} if served is None else {"served": served.as_dict()}),
        **({} if began is None else {"since_start": _means({FROZEN: began})}),
        "series": _means(series),
        **{name: None if own is None else own[name] for name in METRICS},
        **{f"platt_{name}": None if platt is None else platt[name] for name in paired},
        "vs_platt": {name: (Interval(None) if gain is None else gain[name]).bounds for name in paired},
    }


def _means(found: "dict[str, Statistic]") -> dict[str, Any]:
    """Return the mean differences by reference, with their intervals and the number of windows."""
    return {
        "windows": max((each.windows for each in found.values()), default=0),
        **{
            f"vs_{name}": {"estimate": each.mean, "low": each.low, "high": each.high}
            for name, each in found.items()
        },
    }
