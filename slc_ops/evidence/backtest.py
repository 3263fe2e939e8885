"""Run the rolling-origin backtest: scores by method and window, the series, intervals on the newest window.

Steps, for callers that run them as separate tasks::

    plan = window_rules.plan_folds(windows, Reach(link=4, offsets=8, evidence=8))
    for fold in plan.folds:
        score_fold(fold, ladder(methods), directory, options=options, rules=rules, engine=engine)
    status = compare_champion(plan, champion, directory, engine=engine)
    result = assemble(plan, methods, directory, rules, status)

:func:`slc_ops.refresh.pipeline.refresh` runs them in this order.

Self-tests stop the run on a result that contradicts the mathematics. Platt and temperature scaling with a
positive slope are strictly increasing in the logit, so they cannot change the AUC (the paper's Lemma 1). In
floating point they can: different logits round to the same probability (σ(40) = 1), and such a pair counts ½
instead of 0 or 1. The tolerance is therefore 1e-9 plus half the share of pairs that are tied in probability
but not in the logits, the largest possible effect of rounding.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from slc_ops.base.digests import digest_json
from slc_ops.base.errors import SelfTestFailed
from slc_ops.base.methods import METHODS, REFERENCES, ladder
from slc_ops.evidence.evaluation import ALL_ROWS
from slc_ops.evidence.folds import Fold, FoldPlan, FoldRows
from slc_ops.evidence.metrics import METRICS
from slc_ops.evidence.results import Backtest, Champion, item_gains
from slc_ops.evidence.scoring import (
    CHAMPION,
    ITEMS,
    Score,
    read_score,
    read_users,
    read_users_by_slice,
    score_champion,
    score_directory,
)
from slc_ops.evidence.series import Entry, entry
from slc_ops.evidence.uncertainty import UserSums, differences
from slc_ops.parameters.parameter_set import ParameterSet
from slc_ops.rows.engine import LOCAL, Engine
from slc_ops.settings.blocks import Decision

TOLERANCE = 1e-9


def compare_champion(
    plan: FoldPlan,
    champion: ParameterSet,
    directory: Path,
    *,
    version: str | None = None,
    digest: str | None = None,
    engine: Engine = LOCAL,
) -> Champion:
    """Score the champion on the newest window, unless it saw these rows or was fitted for another backbone.

    ``version`` and ``digest`` identify the champion; they are stored with its score and in the result.
    """
    about = partial(Champion, version=version, method=champion.method, digest=digest)
    learned = champion.provenance.window
    if learned is not None and learned.end > plan.newest.window.start:
        reason = (
            f"the champion learned from window {learned}, so it has seen {plan.newest.window} or later "
            "rows and cannot be evaluated on them"
        )
        return about("saw_window", reason)
    fitted = champion.provenance.backbone_version
    rows = FoldRows(plan.newest, engine)
    found = rows.test.backbone_versions
    if fitted and found and fitted not in found:
        reason = (
            f"the champion was fitted for backbone {fitted}, the newest window holds {', '.join(found)}; "
            "its corrections do not apply to these logits"
        )
        return about("other_backbone", reason)
    key = "" if digest is None else digest_json([version, digest])
    score_champion(rows, champion, directory, key=key)
    return about("scored", "scored on the same rows")


def assemble(
    plan: FoldPlan,
    methods: Sequence[str],
    directory: Path,
    rules: Decision,
    champion: Champion | None = None,
) -> Backtest:
    """Read all scores, run the self-tests, build the series and compute intervals on the newest window."""
    champion = champion or Champion()
    names = ladder(methods)
    scores = {fold.key: {name: read_score(fold, name, directory) for name in names} for fold in plan.folds}
    newest = plan.newest
    if champion.status == "scored":
        scores[newest.key][CHAMPION] = read_score(newest, CHAMPION, directory)
    for of_fold in scores.values():
        for score in of_fold.values():
            check_ranges(score)
            check_invariance(of_fold["base"], score)
    check_scored(scores[newest.key]["base"])
    entries = tuple(entry_of(fold, names, scores[fold.key], directory) for fold in plan.folds)
    result = Backtest(plan, names, tuple(methods), scores, entries=entries, champion=champion)
    found = {
        name: score_directory(directory, newest, name)
        for name, score in scores[newest.key].items()
        if score.metrics is not None
    }
    _add_intervals(result, {name: read_users_by_slice(place) for name, place in found.items()}, rules)
    for name in found.keys() - {*REFERENCES, CHAMPION}:
        if "platt" in found:
            result.items[name] = item_gains(found["platt"] / ITEMS, found[name] / ITEMS)
    return result


def _add_intervals(result: Backtest, sums: dict[str, dict[str, UserSums]], rules: Decision) -> None:
    """Add intervals of each method, of its differences, and of its slices against Platt (simultaneous)."""
    compare = partial(differences, confidence=rules.confidence, replicates=rules.replicates)
    result.intervals.update(compare({name: (own[ALL_ROWS], None) for name, own in sums.items()}))
    for name, own in sums.items():
        if name == CHAMPION:
            continue
        rivals = [reference for reference in (*REFERENCES, CHAMPION) if reference in sums]
        result.differences[name] = compare({each: (own[ALL_ROWS], sums[each][ALL_ROWS]) for each in rivals})
        if "platt" in sums and name not in REFERENCES:
            platt = sums["platt"]
            result.slice_differences[name] = compare(
                {part: (each, platt[part]) for part, each in own.items() if part != ALL_ROWS},
                simultaneous=True,
            )


def entry_of(fold: Fold, methods: Sequence[str], scores: Mapping[str, Score], directory: Path) -> Entry:
    """Return the series entry of a scored fold."""
    sums = {
        method: read_users(score_directory(directory, fold, method))
        for method in methods
        if scores[method].metrics is not None
    }
    left_out = {method: why for method in methods if (why := scores[method].error) is not None}
    return entry(fold.window, sums, hold_out=fold.hold_out, left_out=left_out)


def check_scored(score: Score) -> None:
    """Raise :class:`SelfTestFailed` if the newest window has no score."""
    if score.error is not None:
        raise SelfTestFailed(f"fold {score.fold} cannot be scored: {score.error}")


def check_ranges(score: Score) -> None:
    """Raise :class:`SelfTestFailed` if a metric lies outside its range."""
    if score.metrics is None:
        return
    for name, metric in METRICS.items():
        value, (low, high) = score.metrics[name], metric.range
        if value is not None and not low - 1e-12 <= value <= high + 1e-9:
            raise SelfTestFailed(
                f"{name} of {score.method} on fold {score.fold} is {value}, outside [{low:g}, {high:g}]"
            )


def check_invariance(base: Score, score: Score) -> None:
    """Raise :class:`SelfTestFailed` if a strictly increasing method changes the AUC of ``base``."""
    method = METHODS.get(score.method)  # the champion's score has no entry of its own
    if method is None or not method.monotone or (score.slope is not None and score.slope <= 0):
        return
    before, after = base.metrics, score.metrics
    if before is None or after is None or before.auc is None or after.auc is None:
        return
    natural = base.tied_logits or 0.0
    rounded_away = max(before.tied - natural, 0.0) + max(after.tied - natural, 0.0)
    if abs(after.auc - before.auc) > TOLERANCE + rounded_away / 2:
        raise SelfTestFailed(
            f"{score.method} changed the AUC on fold {score.fold} from {before.auc:.9f} to {after.auc:.9f}; "
            "an increasing map of one score cannot: the data or the code is broken"
        )
