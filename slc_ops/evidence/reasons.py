"""One comparison, one reason: a code for machines, a sentence for people, and what it argues for."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

from slc_ops.base.text import share
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

    def as_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return asdict(self)


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


def _reason(code: str, says: Says, text: str, found: Interval, threshold: float) -> Reason:
    return Reason(code, says, text, found.estimate, found.low, found.high, threshold)
