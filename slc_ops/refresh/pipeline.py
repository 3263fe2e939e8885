"""The weekly refresh, step by step.

Every step is a plain function: small values in, small values out, its results on disk. A step that finds its
finished output returns it, so that a retry, a second run of the same week or a crash in the middle costs only
what is missing. ``slc-ops refresh`` and the Airflow DAG call the same steps in the same order::

    extract → validate → fit (per method) → backtest → detectability → decide → publish → promote

``validate`` ends in a :class:`~slc_ops.refresh.plan.Plan`, which names the refresh: deployment, window, the
windows it learns from, and the key under which everything after it is stored.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slc_ops.base.code_version import code_version
from slc_ops.base.errors import InputError, SlcError, ValidationStopped
from slc_ops.base.files import digest_json, read_json, replacing_directory, write_json
from slc_ops.base.methods import ladder
from slc_ops.base.window import Window
from slc_ops.observability.steps import observed
from slc_ops.refresh.plan import Plan, PlannedWindow, make_plan, read_plan
from slc_ops.settings.deployments import Decision, Deployment, Places

if TYPE_CHECKING:
    from slc_ops.evidence.backtest import Champion
    from slc_ops.evidence.folds import FoldPlan
    from slc_ops.numerics.options import FitOptions
    from slc_ops.parameters.parameter_set import ParameterSet
    from slc_ops.registry import Registry
    from slc_ops.rows.engine import Engine

__all__ = [
    "backtest", "decide", "detectability", "extract", "fit", "methods_of", "promote", "publish", "read_plan",
    "refresh", "validate",
]  # fmt: skip

ACTOR = "refresh"
LOOKS = 3
"""How often windows are looked at anew when late rows replace one during validation."""


def needed_windows(deployment: Deployment, window: Window) -> list[Window]:
    """The refreshed window and the earlier ones that its backtest learns from, oldest first."""
    return [*window.before(deployment.folds - 1 + deployment.calibration_weeks), window]


@observed
def extract(places: Places, name: str, window: Window) -> list[Window]:
    """Pull the window and the history it needs; return the windows that hold rows, oldest first.

    The newest window and the ``lookback_weeks`` before it are read again from the source, because late rows
    may have reached them; older ones are final once extracted. An empty past window is no window, an empty
    newest window is an error.
    """
    from slc_ops.intake.extract import extract as extract_window
    from slc_ops.rows.engine import engine_of

    deployment = places.deployment(name)
    engine = engine_of(deployment.engine)  # a cluster that cannot be reached stops the refresh here
    wanted = needed_windows(deployment, window)
    late = wanted[-(1 + deployment.lookback_weeks) :]
    found = []
    for each in wanted:
        manifest = extract_window(
            deployment, each, places.windows(name), refresh=each in late, home=places.home
        )
        if manifest.rows:
            engine.check(manifest)
            found.append(each)
    if window not in found:
        raise InputError(
            f"deployment {name!r} has no rows in window {window}; "
            "check that its source is filled for that week, then refresh again"
        )
    return found


@observed
def validate(places: Places, name: str, window: Window, methods: Sequence[str] = ()) -> Path:
    """Judge every window that has no verdict yet, and name the refresh; returns the plan's file.

    ``methods`` replaces the deployment's own, for this refresh only.

    A past window that the suite stops is left out of the refresh and named in the report; the newest one
    stops the refresh.
    """
    deployment = places.deployment(name)
    if methods:
        deployment = Deployment.model_validate({**deployment.model_dump(), "methods": tuple(methods)})
    for _ in range(LOOKS):
        if (plan := _judged(places, name, deployment, window)) is not None:
            return plan.path
    raise InputError(
        f"the windows of {name!r} were extracted anew {LOOKS} times while {window} was being validated; "
        "let the other refreshes finish, then run this one again"
    )


def _judged(places: Places, name: str, deployment: Deployment, window: Window) -> Plan | None:
    from slc_ops.intake.manifest import WindowManifest
    from slc_ops.numerics.window_sums import keep_sums
    from slc_ops.quality import validate as judge

    def manifest_of(each: Window) -> WindowManifest:
        return WindowManifest.read(places.windows(name) / each.key)

    usable: list[PlannedWindow] = []
    excluded: list[dict[str, str]] = []
    trailing: list[WindowManifest] = []
    for each in needed_windows(deployment, window):
        manifest = manifest_of(each)
        if not manifest.rows:
            continue
        try:
            result = judge(manifest, trailing, deployment)
        except ValidationStopped as stopped:
            if each == window:
                raise
            excluded.append({"window": str(each), "reason": str(stopped)})
            continue
        trailing.append(manifest)
        # The usable rows are a function of the window's content, the suite's settings and the code.
        key = digest_json([manifest.digest, deployment.quality.model_dump(mode="json"), code_version()])
        if deployment.engine == "local":
            keep_sums(result.clean_path, key)
        usable.append(PlannedWindow(each, result.clean_path, manifest.digest, result.as_dict(), key))
    return make_plan(
        name,
        deployment,
        window,
        usable,
        excluded,
        places.refreshes(name),
        lambda each: manifest_of(each).digest,
    )


def methods_of(plan: Plan) -> tuple[str, ...]:
    """The methods that are compared, the two references always among them."""
    return ladder(plan.settings["methods"])


@observed
def fit(plan: Plan, method: str) -> Path:
    """Fit one method on every fold and score it on the strictly later window.

    A fold that an earlier refresh scored on the same rows is taken over from it.
    """
    from slc_ops.evidence.scoring import score_fold
    from slc_ops.evidence.tuning import Grid
    from slc_ops.refresh.score_cache import question_of, take_over

    options, grid = _options(plan), Grid.of(_rules(plan))
    for fold in _folds(plan).folds:
        question = question_of(plan, fold, method, options, grid)
        if not take_over(plan, fold, method, _scores(plan), question):
            score_fold(
                fold,
                method,
                _scores(plan),
                options=options,
                grid=grid,
                question=question,
                engine=_engine(plan),
            )
    return _scores(plan)


@observed
def backtest(places: Places, plan: Plan) -> Path:
    """Compare the methods on the folds, beside the reigning champion; intervals on the newest window."""
    from slc_ops.evidence.backtest import assemble

    target = plan.directory / "backtest.json"
    if not target.exists():
        folds = _folds(plan)
        champion = _score_champion(places, plan, folds)
        result = assemble(folds, plan.settings["methods"], _scores(plan), _rules(plan), champion)
        write_json(target, result.as_dict())
    return target


@observed
def detectability(plan: Plan) -> Path:
    """Work out which drifts the calibration rows of the newest fold could show."""
    import pyarrow.parquet as pq

    from slc_ops.evidence.detectability import detectability as report

    target = plan.directory / "detectability"
    if not target.exists():
        log = _folds(plan).confirming.calibration_log(_engine(plan))
        result = report(log, time_bins=plan.settings["time_bins"])
        with replacing_directory(target) as temporary:
            write_json(temporary / "detectability.json", result.as_dict())
            if result.per_item is not None:
                pq.write_table(result.per_item, temporary / "items.parquet")
    return target


@observed
def decide(plan: Plan) -> dict[str, Any]:
    """Choose on the older folds, confirm on the newest, give the verdict."""
    from slc_ops.evidence.backtest import Backtest
    from slc_ops.evidence.decision import decide as judge
    from slc_ops.evidence.detectability import Detectability

    target = plan.directory / "verdict.json"
    if not target.exists():
        evidence = Backtest.from_dict(read_json(plan.directory / "backtest.json"))
        seen = Detectability.from_dict(read_json(plan.directory / "detectability" / "detectability.json"))
        write_json(target, judge(evidence, seen, _rules(plan)).as_dict())
    verdict: dict[str, Any] = read_json(target)
    return verdict


@observed
def publish(places: Places, plan: Plan) -> int | None:
    """Refit the chosen method with the newest week, write the report, register; returns the version.

    Where no method has evidence on every fold there is nothing to register, only a report.
    """
    from slc_ops.registry import Publication, Registry

    verdict = decide(plan)
    if verdict["method"] is None:
        write_report(plan)
        return None
    parameters = _refit(plan, verdict)
    report = plan.directory / "report" / "report.html"
    if not report.exists():
        write_report(plan)
    version = Registry.open(places).publish(
        Publication(
            deployment=plan.deployment,
            window=plan.window,
            method=verdict["method"],
            parameters=parameters,
            verdict=verdict,
            metrics=headline(plan, verdict["method"]),
            input_digest=plan.input_digest,
            config_digest=plan.config_digest,
            code_version=plan.code_version,
            artifacts={
                "report": report.parent,
                "detectability": plan.directory / "detectability",
                "backtest": plan.directory / "backtest.json",
                "validation": Path(plan.newest.validation["result_path"]),
                "data-docs": Path(plan.newest.validation["docs_path"]),
            },
        )
    )
    write_json(plan.directory / "version.json", {"version": version.number, "run_id": version.run_id})
    return version.number


def write_report(plan: Plan) -> Path:
    """Write (or write again) the HTML report of a decided refresh; returns its file."""
    from slc_ops.reporting import write_report as write

    verdict = decide(plan)
    return write(
        plan.directory / "report",
        backtest=read_json(plan.directory / "backtest.json"),
        verdict=verdict,
        detectability=plan.directory / "detectability",
        parameters=None if verdict["method"] is None else _refit(plan, verdict),
        validation=plan.newest.validation,
        plan=plan.as_dict(),
    )


@observed
def promote(places: Places, plan: Plan, version: int | None, *, gate: str | None = None) -> str:
    """Make the version the champion where verdict, gate and ledger allow it; says what was done."""
    from slc_ops.refresh.gate import promote as move
    from slc_ops.refresh.gate import propose

    gate = gate or places.deployment(plan.deployment).gate
    proposal = propose(places, plan, gate)
    if proposal.hold is not None and not (proposal.reigns and gate == "auto"):
        return f"version {version} is not promoted: {proposal.hold}" if version else proposal.hold
    if gate != "auto":
        return f"version {version} waits: the gate of {plan.deployment} is {gate}"
    return move(places, proposal, actor=ACTOR, automatic=True)


def refresh(
    places: Places, name: str, window: Window, *, tell: Callable[[str], None] = lambda text: None
) -> Plan:
    """All steps in order, as the DAG takes them."""
    plan, version = register(places, name, window, tell=tell)
    tell(promote(places, plan, version))
    return plan


def register(
    places: Places,
    name: str,
    window: Window,
    methods: Sequence[str] = (),
    *,
    tell: Callable[[str], None] = lambda text: None,
) -> tuple[Plan, int | None]:
    """All steps up to a registered version, which is all that a backfill may do; the champion stays."""
    tell("extract")
    extract(places, name, window)
    tell("validate")
    plan = read_plan(validate(places, name, window, methods))
    for method in methods_of(plan):
        tell(f"fit {method}")
        fit(plan, method)
    tell("backtest")
    backtest(places, plan)
    tell("detectability")
    detectability(plan)
    tell("decide")
    decide(plan)
    tell("publish")
    return plan, publish(places, plan)


def _scores(plan: Plan) -> Path:
    return plan.directory / "scores"


def _folds(plan: Plan) -> "FoldPlan":
    from slc_ops.evidence.folds import plan_folds

    return plan_folds(
        [(each.window, each.log) for each in plan.windows],
        calibration_weeks=plan.settings["calibration_weeks"],
        folds=plan.settings["folds"],
        summed=True,
    )


def _engine(plan: Plan) -> "Engine":
    from slc_ops.rows.engine import engine_of

    return engine_of(plan.settings.get("engine", "local"))


def _options(plan: Plan) -> "FitOptions":
    from slc_ops.methods import FitOptions

    return FitOptions(prior_var=plan.settings["prior_var"], time_bins=plan.settings["time_bins"])


def _rules(plan: Plan) -> Decision:
    return Decision.model_validate(plan.settings["decision"])


def _score_champion(places: Places, plan: Plan, folds: "FoldPlan") -> "Champion":
    """The reigning champion on the newest rows; a champion that cannot be read is said, not skipped."""
    from slc_ops.evidence.backtest import Champion, compare_champion
    from slc_ops.registry import Registry

    registry = Registry.open(places)
    version = registry.champion(plan.deployment)
    if version is None:
        return Champion()
    try:
        parameters = _champion_parameters(registry, plan)
    except SlcError as error:
        return Champion(
            "unreadable", f"version {version.number}: {error}", str(version.number), version.method
        )
    return compare_champion(
        folds, parameters, _scores(plan), version=str(version.number), engine=_engine(plan)
    )


def _champion_parameters(registry: "Registry", plan: Plan) -> "ParameterSet":
    from slc_ops.parameters.parameter_set import ParameterSet

    version = registry.champion(plan.deployment)
    if version is None:
        raise InputError(f"deployment {plan.deployment!r} has no champion")
    return ParameterSet.read(registry.parameters(version, plan.directory / "champion"))


def _refit(plan: Plan, verdict: dict[str, Any]) -> Path:
    """The chosen method fitted on the newest calibration weeks, the refreshed window included."""
    from dataclasses import replace

    from slc_ops.methods import fit as fit_method
    from slc_ops.numerics.window_sums import open_windows

    target = plan.directory / "parameters"
    if not target.exists():
        learned = plan.windows[-plan.settings["calibration_weeks"] :]
        log = open_windows(_engine(plan), [each.log for each in learned])
        options = replace(_options(plan), **verdict.get("options", {}))
        parameters = fit_method(verdict["method"], log, options=options)
        versions = log.backbone_versions
        parameters.with_provenance(
            deployment=plan.deployment,
            window=plan.window,
            backbone_version=versions[0] if len(versions) == 1 else None,
            input_digest=plan.input_digest,
            config_digest=plan.config_digest,
            code_version=plan.code_version,
        ).write(target)
    return target


def headline(plan: Plan, method: str) -> dict[str, Any]:
    """A version's figures, of the newest window: the method's own, Platt's, and the difference."""
    from slc_ops.evidence.backtest import Backtest
    from slc_ops.evidence.metrics import METRICS, paired_metrics

    found = Backtest.from_dict(read_json(plan.directory / "backtest.json"))
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
