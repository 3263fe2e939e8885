"""The steps ``fit``, ``backtest``, ``detectability`` and ``decide``: what a plan's windows say."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from slc_ops.base.files import read_json, write_json
from slc_ops.base.methods import ladder
from slc_ops.observability.steps import observed
from slc_ops.refresh.champion import Opponent, current_champion, still_holds
from slc_ops.refresh.plan import Plan
from slc_ops.settings.deployments import Decision, Places

if TYPE_CHECKING:
    from slc_ops.evidence.folds import Fold, FoldPlan
    from slc_ops.evidence.results import Backtest
    from slc_ops.numerics.options import FitOptions
    from slc_ops.rows.engine import Engine


def methods_of(plan: Plan) -> tuple[str, ...]:
    """The methods that are compared, the two references always among them."""
    return ladder(plan.settings["methods"])


@observed
def fit(plan: Plan, fold: "Fold") -> Path:
    """Fit every method on one fold and score it on the strictly later window; returns the scores' directory.

    What an earlier refresh scored on the same rows is reused; what is missing is worked out together, on rows
    that are opened once.
    """
    from slc_ops.evidence.scoring import score_fold
    from slc_ops.evidence.tuning import Grid
    from slc_ops.refresh.score_cache import cache_key, reuse

    options, grid = fit_options(plan), Grid.of(rules_of(plan))
    keys = {method: cache_key(plan, fold, method, options, grid) for method in methods_of(plan)}
    missing = [method for method, key in keys.items() if not reuse(plan, fold, method, key)]
    if missing:
        engine = engine_of_plan(plan)
        score_fold(fold, missing, plan.files.scores, options=options, grid=grid, keys=keys, engine=engine)
    return plan.files.scores


@observed
def backtest(places: Places, plan: Plan, champion: Opponent | None = None) -> Path:
    """Compare the methods on the folds, beside the champion; intervals on the newest window.

    The champion is read once, from the ledger unless ``champion`` is given. A finished backtest is returned
    as long as it speaks about that champion; about another one, only the champion's part is redone.
    """
    from slc_ops.evidence.backtest import Champion, assemble

    target = plan.files.backtest
    opponent = champion or current_champion(places, plan.deployment)
    if target.exists() and still_holds(plan, read_json(target), opponent):
        return target
    folds, scores = folds_of(plan), plan.files.scores
    compared = Champion() if opponent is None else opponent.score(folds, scores, engine_of_plan(plan))
    result = assemble(folds, plan.settings["methods"], scores, rules_of(plan), compared)
    write_json(target, result.as_dict(), sealed=True)
    return target


def read_backtest(plan: Plan) -> "Backtest":
    """What :func:`backtest` wrote."""
    from slc_ops.evidence.results import Backtest

    return Backtest.from_dict(read_json(plan.files.backtest))


@observed
def detectability(plan: Plan) -> Path:
    """Work out which drifts the calibration rows of the newest fold could show."""
    from slc_ops.evidence.detectability import detectability as report
    from slc_ops.evidence.detectability import write_detectability

    target = plan.files.detectability
    if not target.exists():
        log = folds_of(plan).confirming.calibration_log(engine_of_plan(plan))
        write_detectability(report(log, time_bins=plan.settings["time_bins"]), target)
    return target


@observed
def decide(plan: Plan) -> dict[str, Any]:
    """Choose on the older folds, confirm on the newest, give the verdict.

    A finished verdict is returned as long as it is about the champion of the backtest.
    """
    from slc_ops.evidence.detectability import read_detectability
    from slc_ops.evidence.verdict import decide as give_verdict

    target = plan.files.verdict
    compared = read_json(plan.files.backtest)["champion"]
    if not target.exists() or read_json(target)["confirmation"]["champion"] != compared:
        seen = read_detectability(plan.files.detectability)
        write_json(target, give_verdict(read_backtest(plan), seen, rules_of(plan)).as_dict(), sealed=True)
    verdict: dict[str, Any] = read_json(target)
    return verdict


def folds_of(plan: Plan) -> "FoldPlan":
    """The plan's windows as rolling-origin folds."""
    from slc_ops.evidence.folds import plan_folds

    return plan_folds(
        [(each.window, each.log) for each in plan.windows],
        calibration_weeks=plan.settings["calibration_weeks"],
        folds=plan.settings["folds"],
        summed=True,
    )


def engine_of_plan(plan: Plan) -> "Engine":
    """Where the plan's rows are worked on."""
    from slc_ops.rows.engine import engine_of

    return engine_of(plan.settings.get("engine", "local"))


def fit_options(plan: Plan) -> "FitOptions":
    """The deployment's own options of a fit."""
    from slc_ops.methods import FitOptions

    return FitOptions(prior_var=plan.settings["prior_var"], time_bins=plan.settings["time_bins"])


def rules_of(plan: Plan) -> Decision:
    """The thresholds of the gate."""
    return Decision.model_validate(plan.settings["decision"])
