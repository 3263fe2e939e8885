"""One comparison, one reason: a code for machines, a sentence for people, and what it argues for."""

from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from slc_ops.base.text import share, signed
from slc_ops.evidence.metrics import METRICS
from slc_ops.evidence.results import Champion
from slc_ops.evidence.uncertainty import Interval, PairedDifference
from slc_ops.settings.deployments import Decision

Says = Literal["pass", "hold", "reject", "note"]


@dataclass(frozen=True)
class Reason:
    """``says`` is ``pass``, ``hold`` or ``reject``, or ``note`` for what decides nothing."""

    code: str
    says: Says
    sentence: str
    estimate: float | None = None
    low: float | None = None
    high: float | None = None
    threshold: float | None = None
    brief: str = ""  # the sentence without its interval

    def as_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return asdict(self)


def against_platt(found: PairedDifference | None, rules: Decision) -> list[Reason]:
    """Better than Platt in AUC and in NLL, by the ends of the intervals."""
    if found is None:
        return [Reason("no_platt", "hold", "Platt has no number on the newest window to compare with")]
    if (few := _too_few(found, rules)) is not None:
        return [few]
    return [
        _from_interval("platt_auc", "auc", "Platt", found, rules.min_auc_gain, 0.0),
        _from_interval("platt_nll", "nll", "Platt", found, rules.max_nll_loss, rules.max_nll_loss),
    ]


def against_champion(
    champion: Champion, found: PairedDifference | None, rules: Decision, score_only: bool
) -> list[Reason]:
    """Not worse than the champion beyond the margins; a score-only candidate must beat it."""
    if champion.status == "absent":
        return [Reason("no_champion", "note", champion.reason)]
    if champion.status != "scored":
        return [Reason(f"champion_{champion.status}", "hold", champion.reason)]
    if found is None:
        return [Reason("champion_unscored", "hold", "the champion has no number on the newest window")]
    if (few := _too_few(found, rules)) is not None:
        return [few]
    who, auc, nll = "the champion", -rules.champion_auc_margin, rules.champion_nll_margin
    if score_only:
        return [_from_interval("champion_nll", "nll", who, found, 0.0, 0.0)]
    return [
        _from_interval("champion_auc", "auc", who, found, auc, auc),
        _from_interval("champion_nll", "nll", who, found, nll, nll),
    ]


def slice_reasons(found: dict[str, PairedDifference], rules: Decision) -> list[Reason]:
    """Slices whose NLL is clearly worse than under Platt; they block when the deployment sets a limit.

    Many slices are looked at, so their intervals hold together: a candidate that equals Platt is blocked by
    any of them as rarely as by one.
    """
    limit = rules.max_slice_nll_loss
    reasons = []
    for name, difference in found.items():
        low = difference.nll.low
        if low is not None and low > (limit or 0.0):
            where = slice_in_words(name)
            text = (
                f"on {where} its probabilities are worse than Platt's: NLL {difference.nll.text()}, an "
                f"interval of {share(difference.confidence)} for {difference.together} slices together"
            )
            says: Says = "note" if limit is None else "hold"
            reasons.append(_reason(f"slice:{name}", says, text, difference.nll, limit or 0.0))
    return reasons


def slice_in_words(name: str) -> str:
    """A slice's key for people.

    >>> slice_in_words("density:sparse"), slice_in_words("cold_start:cold_start"), slice_in_words("group:a:b")
    ('sparse items', 'cold-start items', 'group a:b')
    """
    kind, _, rest = name.partition(":")
    return {"density": f"{rest} items", "cold_start": "cold-start items"}.get(kind, f"{kind} {rest}")


def _too_few(found: PairedDifference, rules: Decision) -> Reason | None:
    if found.users >= rules.min_users:
        return None
    text = f"the newest window has {found.users} users; an interval needs {rules.min_users} to be trusted"
    return Reason("too_few_users", "hold", text, threshold=rules.min_users)


def _from_interval(
    code: str, name: str, who: str, difference: PairedDifference, needed: float, worse: float
) -> Reason:
    """Where the interval lies: wholly beyond ``needed`` passes, wholly beyond ``worse`` rejects.

    AUC counts upwards and NLL downwards. A threshold of 0 must be cleared, a margin may be touched: the same
    parameters differ by exactly 0 from themselves, which is no gain but within any margin.
    """
    found, title, up = difference[name], METRICS[name].title, METRICS[name].better
    if found.low is None or found.high is None:
        text = f"the {title} difference to {who} has no interval: {found.reason}"
        return Reason(code, "hold", text, found.estimate, threshold=needed)
    near, far = (found.low, found.high) if up > 0 else (-found.high, -found.low)
    cleared = near > up * needed or (up * needed < 0 and near >= up * needed)
    says: Says = "reject" if far < up * worse else "pass" if cleared else "hold"
    finding = _finding(name, who, says, near)
    reason = _reason(code, says, f"{finding}: {title} {found.text()}", found, needed)
    return replace(reason, brief=f"{finding} ({title} {signed(found.estimate)})")


def _finding(name: str, who: str, says: Says, near: float) -> str:
    what = "it ranks" if name == "auc" else "its probabilities are"
    who = who if name == "auc" else f"{who}'s"
    if says == "reject":
        return f"{what} worse than {who}"
    if says == "pass":
        return f"{what} better than {who}" if near > 0 else f"{what} no worse than {who} within the margin"
    return f"{what} neither clearly better nor clearly worse than {who}"


def _reason(code: str, says: Says, text: str, found: Interval, threshold: float) -> Reason:
    return Reason(code, says, text, found.estimate, found.low, found.high, threshold)
