"""The steps ``fit``, ``backtest``, ``detectability`` and ``decide``."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slc_ops.base.files import read_json, write_json
from slc_ops.base.methods import FROZEN, ladder, method_named
from slc_ops.refresh.champion import ChampionReference, current_champion, still_holds, taken_back_from
from slc_ops.refresh.fitting import engine_of_plan, fit_options, folds_of, renewal_of
from slc_ops.refresh.observed import observed
from slc_ops.refresh.plan import Plan
from slc_ops.refresh.versions import note_outcome
from slc_ops.settings.blocks import Decision
from slc_ops.settings.environment import Installation

if TYPE_CHECKING:
    from slc_ops.evidence.folds import Fold
    from slc_ops.evidence.results import Backtest


@observed
def fit(plan: Plan, fold: "Fold") -> Path:
    """Fit every method on one fold and score it on the strictly later window; return the scores' directory.

    Scores and fits of an earlier refresh on the same rows are reused; missing ones are computed together, on
    rows that are opened once.
    """
    from slc_ops.evidence.scoring import score_fold
    from slc_ops.refresh.reuse import fit_key, kept_fit, reuse_score, score_key

    options, rules = fit_options(plan), rules_of(plan)
    keys = {
        method: score_key(plan, fold, method, options, rules) for method in ladder(plan.settings["methods"])
    }
    missing = [method for method, key in keys.items() if not reuse_score(plan, fold, method, key)]
    if missing:
        fixed = [method for method in missing if fold.test is not None and not method_named(method).tunes]
        fits = {method: kept_fit(plan, method, fit_key(plan, fold, method, options)) for method in fixed}
        score_fold(
            fold,
            missing,
            plan.files.scores,
            options=options,
            rules=rules,
            keys=keys,
            fits={method: found for method, found in fits.items() if found is not None},
            engine=engine_of_plan(plan),
        )
    return plan.files.scores


@observed
def backtest(installation: Installation, plan: Plan, champion: ChampionReference | None = None) -> Path:
    """Compare the methods on the folds, beside the champion; intervals on the newest window.

    ``champion`` is by default the ledger's, read once. A finished file is returned if it matches that
    champion; otherwise only the champion's part is computed again.
    """
    from slc_ops.evidence.backtest import assemble
    from slc_ops.evidence.results import Champion

    target = plan.files.backtest
    reference = champion or current_champion(installation, plan.deployment)
    taken = {} if champion is not None else taken_back_from(installation, plan)
    if target.exists() and still_holds(plan, read_json(target), reference, taken):
        return target
    folds, scores = folds_of(plan), plan.files.scores
    compared = Champion() if reference is None else reference.score(folds, scores, engine_of_plan(plan))
    compared = replace(compared, taken_back=taken)
    result = assemble(folds, plan.settings["methods"], scores, rules_of(plan), compared)
    write_json(target, result.as_dict(), sealed=True)
    return target


def read_backtest(plan: Plan) -> "Backtest":
    """Read the result of :func:`backtest`."""
    from slc_ops.evidence.results import Backtest

    return Backtest.from_dict(read_json(plan.files.backtest))


def read_verdict(plan: Plan) -> dict[str, Any]:
    """Read the result of :func:`decide`."""
    verdict: dict[str, Any] = read_json(plan.files.verdict)
    return verdict


@observed
def detectability(plan: Plan) -> Path:
    """Compute the drifts that the calibration rows of the newest fold could show; return the directory."""
    from slc_ops.evidence.detectability import detectability as report
    from slc_ops.evidence.detectability import write_detectability
    from slc_ops.evidence.folds import FoldRows

    target = plan.files.detectability
    if not target.exists():
        log = FoldRows(folds_of(plan).newest, engine_of_plan(plan)).calibration.log
        write_detectability(report(log, time_bins=plan.settings["time_bins"]), target)
    return target


@observed
def decide(plan: Plan) -> dict[str, Any]:
    """Decide the method by the series, fit it up to the newest window, check the fit, return the verdict.

    A finished verdict is returned if its champion is that of the backtest.
    """
    from slc_ops.evidence.detectability import read_detectability
    from slc_ops.evidence.verdict import decide_on, give_verdict

    target = plan.files.verdict
    found = read_backtest(plan)
    if not target.exists() or read_verdict(plan)["champion"] != found.champion.as_dict():
        seen, rules = read_detectability(plan.files.detectability), rules_of(plan)
        decision = decide_on(found, seen, rules, plan.settings["evidence_windows"])
        renewal = None
        if decision.method != FROZEN:
            options = found.newest[decision.method].options
            renewal = renewal_of(plan, decision.method, options, plan.files.parameters)
        write_json(target, give_verdict(found, decision, renewal, seen, rules).as_dict(), sealed=True)
    verdict = read_verdict(plan)
    note_outcome(plan.files, verdict, found)
    return verdict


def rules_of(plan: Plan) -> Decision:
    """Return the rule for changing the method."""
    return Decision.model_validate(plan.settings["decision"])
