"""The verdict: promote, hold or reject, with reasons.

1. **Choose** on the older folds: the lowest mean NLL among the eligible methods; means closer than
   ``nll_tie`` are told apart by the higher AUC. A method that ranks worse than Platt there is not eligible,
   nor is one that tracks drift (``slc_t``) where drift cannot be seen.
2. **Confirm** on the newest window, by the ends of paired, user-clustered intervals: better than Platt in
   AUC and NLL; not worse than the champion beyond the margins; not worse than Platt in any slice.
3. Clearly worse than either is ``reject``; everything passed is ``promote``; anything else is ``hold``.

Nothing is promoted for lack of evidence against it.
"""

from dataclasses import dataclass, field
from typing import Any, Literal

from slc_ops.base.methods import method_named, score_only
from slc_ops.evidence.detectability import Detectability
from slc_ops.evidence.reasons import Reason, against_champion, against_platt, slice_reasons
from slc_ops.evidence.results import Backtest
from slc_ops.evidence.scoring import CHAMPION
from slc_ops.settings.deployments import Decision

AUC_TOLERANCE = 0.001  # isotonic maps lose this little through ties


@dataclass(frozen=True)
class Choice:
    """What the older folds say: a method, and why not the others."""

    method: str | None
    source: Literal["older_folds", "forward_hold_out"]
    folds: int
    table: list[dict[str, Any]]
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Verdict:
    """What may happen with the candidate, and why."""

    verdict: Literal["promote", "hold", "reject"]
    method: str | None
    window: dict[str, str]
    sentence: str
    reasons: list[dict[str, Any]]
    choice: dict[str, Any]
    options: dict[str, Any]
    confirmation: dict[str, Any]
    temporal_tracking: str
    notes: list[str]
    rules: dict[str, Any]

    def as_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return dict(vars(self))

    @classmethod
    def from_dict(cls, value: dict[str, Any]) -> "Verdict":
        """Read what :meth:`as_dict` wrote."""
        return cls(**value)


def choose(backtest: Backtest, detectability: Detectability | None, rules: Decision) -> Choice:
    """The method with the lowest mean NLL on the older folds, AUC as co-primary."""
    means = backtest.older_means()
    platt_auc = means["platt"]["auc"]
    table: list[dict[str, Any]] = []
    for method in backtest.methods:
        nll, auc = means[method]["nll"], means[method]["auc"]
        why_not = None
        if nll is None or auc is None:
            errors = [backtest.scores[fold.key][method].error for fold in backtest.choosing]
            why_not = next((error for error in errors if error), "a fold has no number for it")
        elif method_named(method).tracks_drift and (detectability is None or not detectability.viable):
            why_not = "temporal tracking is not viable on these data"
        elif platt_auc is not None and auc < platt_auc - AUC_TOLERANCE:
            why_not = f"it ranks worse than Platt (AUC {auc:.4f} against {platt_auc:.4f})"
        table.append({"method": method, "mean_nll": nll, "mean_auc": auc, "why_not": why_not})
    eligible = [row for row in table if row["why_not"] is None]
    hold_out = any(fold.hold_out for fold in backtest.choosing)
    source: Literal["older_folds", "forward_hold_out"] = "forward_hold_out" if hold_out else "older_folds"
    if not eligible:
        return Choice(None, source, len(backtest.choosing), table)
    best = min(row["mean_nll"] for row in eligible)
    close = [row for row in eligible if row["mean_nll"] <= best + rules.nll_tie]
    # Of equal AUCs (Platt and temperature always have them) the lower NLL, then the simpler method.
    chosen = min(close, key=lambda row: (round(-row["mean_auc"], 9), row["mean_nll"]))["method"]
    options = backtest.newest[chosen].options
    return Choice(chosen, source, len(backtest.choosing), table, options)


def decide(
    backtest: Backtest, detectability: Detectability | None, rules: Decision, *, notes: tuple[str, ...] = ()
) -> Verdict:
    """Choose, confirm, and say it in words."""
    choice = choose(backtest, detectability, rules)
    reasons = sorted(_reasons(backtest, choice, rules), key=lambda reason: reason.says == "note")
    outcome = _outcome(reasons)
    confirmation = {
        "window": backtest.window.as_dict(),
        "against": {
            name: difference.as_dict()
            for name, difference in backtest.differences.get(choice.method or "", {}).items()
        },
        "champion": vars(backtest.champion),
    }
    return Verdict(
        verdict=outcome,
        method=choice.method,
        window=backtest.window.as_dict(),
        sentence=_sentence(outcome, choice, reasons, backtest),
        reasons=[reason.as_dict() for reason in reasons],
        choice={k: v for k, v in vars(choice).items() if k != "options"},
        options=choice.options,
        confirmation=confirmation,
        temporal_tracking="unknown" if detectability is None else detectability.temporal_tracking,
        notes=[*backtest.notes, *notes],
        rules=rules.model_dump(mode="json"),
    )


def _reasons(backtest: Backtest, choice: Choice, rules: Decision) -> list[Reason]:
    if choice.method is None:
        return [Reason("no_choice", "hold", "no method has a number on every older fold; nothing to propose")]
    method = choice.method
    newest = backtest.newest[method]
    if newest.error is not None:
        text = f"{method} could not be fitted for the newest window: {newest.error}"
        return [Reason("fit_failed", "hold", text)]
    reasons = []
    slope = backtest.newest["platt"].slope
    if slope is not None and slope <= 0:
        text = f"Platt's slope is {slope:.3f}: the backbone ranks no better than backwards, check its logits"
        reasons.append(Reason("platt_slope", "hold", text, estimate=slope, threshold=0.0))
    if choice.source == "forward_hold_out":
        text = "chosen on a forward hold-out inside the calibration weeks, for lack of older folds"
        reasons.append(Reason("choice_by_hold_out", "note", text))
    if score_only(method):
        if backtest.champion.status != "scored":
            text = f"{method} won on the older folds: no per-item correction is worth promoting"
            reasons.append(Reason("no_item_correction", "hold", text))
    else:
        reasons += against_platt(backtest.differences[method].get("platt"), rules)
        reasons += slice_reasons(backtest.slice_differences.get(method, {}), rules)
    reasons += against_champion(
        backtest.champion, backtest.differences[method].get(CHAMPION), rules, score_only(method)
    )
    return reasons


def _outcome(reasons: list[Reason]) -> Literal["promote", "hold", "reject"]:
    says = {reason.says for reason in reasons}
    if "reject" in says:
        return "reject"
    return "hold" if "hold" in says or "pass" not in says else "promote"


def _sentence(outcome: str, choice: Choice, reasons: list[Reason], backtest: Backtest) -> str:
    deciding = [reason for reason in reasons if reason.says == ("pass" if outcome == "promote" else outcome)]
    verb = {"promote": "Promote", "hold": "Hold", "reject": "Reject"}[outcome]
    said_by = [reason.brief or reason.sentence for reason in deciding or reasons]
    said = " and ".join([", ".join(said_by[:-1]), said_by[-1]] if len(said_by) > 1 else said_by)
    return f"{verb} {choice.method or 'the candidate'}: on the newest window {backtest.window} {said}."
