"""The rolling-origin backtest: every method on every fold, then intervals on the newest window.

Steps, for callers that run them as separate tasks::

    plan = plan_folds(windows, calibration_weeks=4, folds=4)
    for fold in plan.folds:
        score_fold(fold, ladder(methods), directory, options=options, grid=grid, engine=engine)
    status = compare_champion(plan, champion, directory, engine=engine)
    result = assemble(plan, methods, directory, rules, status)

:func:`slc_ops.refresh.pipeline.refresh` takes them in this order.
"""

from collections.abc import Sequence
from pathlib import Path

from slc_ops.base.errors import TooFewRows
from slc_ops.base.files import digest_json
from slc_ops.base.methods import REFERENCES, ladder
from slc_ops.evidence import selftest
from slc_ops.evidence.evaluation import ALL_ROWS
from slc_ops.evidence.fold_rows import FoldRows
from slc_ops.evidence.folds import FoldPlan
from slc_ops.evidence.items import item_gains
from slc_ops.evidence.results import Backtest, Champion
from slc_ops.evidence.scoring import (
    CHAMPION,
    ITEMS,
    Score,
    read_score,
    read_users,
    score_champion,
    score_directory,
)
from slc_ops.evidence.uncertainty import PairedDifference, UserSums, differences
from slc_ops.parameters.parameter_set import ParameterSet
from slc_ops.rows.engine import LOCAL, Engine
from slc_ops.settings.deployments import Decision

__all__ = [
    "CHAMPION",
    "Backtest",
    "Champion",
    "assemble",
    "compare_champion",
]


def compare_champion(
    plan: FoldPlan,
    champion: ParameterSet,
    directory: Path,
    *,
    version: str | None = None,
    digest: str | None = None,
    engine: Engine = LOCAL,
) -> Champion:
    """Score the champion on the newest rows, unless that would be no fair comparison.

    ``version`` and ``digest`` say which champion it is; they are kept with its score and in the answer.
    """
    learned = champion.provenance.window
    if learned is not None and learned.end > plan.confirming.window.start:
        reason = (
            f"the champion learned from window {learned}, so it has seen {plan.confirming.window} or later "
            "rows and cannot be evaluated on them"
        )
        return Champion("saw_window", reason, version, champion.method, digest)
    fitted = champion.provenance.backbone_version
    rows = FoldRows(plan.confirming, engine)
    found = rows.test.backbone_versions
    if fitted and found and fitted not in found:
        reason = (
            f"the champion was fitted for backbone {fitted}, the newest window holds {', '.join(found)}; "
            "its corrections do not apply to these logits"
        )
        return Champion("other_backbone", reason, version, champion.method, digest)
    key = "" if digest is None else digest_json([version, digest])
    score_champion(rows, champion, directory, key=key)
    return Champion("scored", "scored on the same rows", version, champion.method, digest)


def assemble(
    plan: FoldPlan,
    methods: Sequence[str],
    directory: Path,
    rules: Decision,
    champion: Champion | None = None,
) -> Backtest:
    """Read all scores, run the self-tests, and put intervals on the newest window's numbers."""
    champion = champion or Champion()
    names = ladder(methods)
    scores = {fold.key: {name: read_score(fold, name, directory) for name in names} for fold in plan.folds}
    newest = plan.confirming
    if champion.status == "scored":
        scores[newest.key][CHAMPION] = read_score(newest, CHAMPION, directory)
    for fold in plan.folds:
        _self_test(scores[fold.key])
    _check_newest(scores[newest.key], rules)
    skipped = {fold.key: why for fold in plan.choosing if (why := _unusable(scores[fold.key], rules))}
    result = Backtest(plan, names, scores, skipped=skipped, champion=champion)
    found = {
        name: score_directory(directory, newest, name)
        for name, score in scores[newest.key].items()
        if score.metrics is not None
    }
    _add_intervals(result, {name: read_users(place) for name, place in found.items()}, rules)
    for name in found.keys() - {*REFERENCES, CHAMPION}:
        if "platt" in found:
            result.items[name] = item_gains(found["platt"] / ITEMS, found[name] / ITEMS)
    return result


def _add_intervals(result: Backtest, sums: dict[str, dict[str, UserSums]], rules: Decision) -> None:
    """Every method by itself, against its rivals, and against Platt in each slice, all slices together."""

    def compare(
        pairs: dict[str, tuple[UserSums, UserSums | None]], *, together: bool = False
    ) -> dict[str, PairedDifference]:
        found = differences(
            list(pairs.values()),
            confidence=rules.confidence,
            replicates=rules.replicates,
            together=together,
        )
        return dict(zip(pairs, found, strict=True))

    result.intervals.update(compare({name: (own[ALL_ROWS], None) for name, own in sums.items()}))
    for name, own in sums.items():
        if name == CHAMPION:
            continue
        rivals = [reference for reference in (*REFERENCES, CHAMPION) if reference in sums]
        result.differences[name] = compare({each: (own[ALL_ROWS], sums[each][ALL_ROWS]) for each in rivals})
        if "platt" in sums and name not in REFERENCES:
            platt = sums["platt"]
            result.slice_differences[name] = compare(
                {part: (each, platt[part]) for part, each in own.items() if part != ALL_ROWS}, together=True
            )


def _self_test(scores: dict[str, Score]) -> None:
    for score in scores.values():
        selftest.check_ranges(score)
        selftest.check_invariance(scores["base"], score)


def _check_newest(scores: dict[str, Score], rules: Decision) -> None:
    """The newest window must be there, or there is nothing to decide on."""
    selftest.check_scored(scores["base"])
    metrics = scores["base"].metrics
    rows = 0 if metrics is None else metrics.n
    if rows < rules.min_test_rows:
        raise TooFewRows(
            f"a quiet week: fold {scores['base'].fold} has {rows} test rows, at least {rules.min_test_rows} "
            "are needed to decide (decision.min_test_rows). The refresh stops and the champion stays; wait "
            "for the next week, or lower the limit"
        )


def _unusable(scores: dict[str, Score], rules: Decision) -> str | None:
    """Why a fold cannot take part in the choice."""
    for reference in REFERENCES:
        if scores[reference].error is not None:
            return scores[reference].error
    metrics = scores["base"].metrics
    if metrics is None or metrics.n < rules.min_test_rows:
        return f"{0 if metrics is None else metrics.n} test rows, the floor is {rules.min_test_rows}"
    return None if metrics.auc is not None else metrics.reasons["auc"]
