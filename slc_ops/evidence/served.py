"""What was served on the newest window of a backtest: the champion before it, or the frozen model."""

from dataclasses import dataclass
from typing import Any

from slc_ops.base.window import Window
from slc_ops.evidence.decision import FROZEN, PLATT
from slc_ops.evidence.metrics import paired_metrics
from slc_ops.evidence.results import Backtest
from slc_ops.evidence.scoring import CHAMPION
from slc_ops.evidence.uncertainty import Interval


@dataclass(frozen=True)
class Served:
    """One window: the method that served (``base``: the frozen model), and its figures.

    ``metrics`` are its own, ``platt`` and ``frozen`` the differences to Platt refitted before the window and
    to the frozen model, by metric.
    """

    window: Window
    method: str
    version: str | None
    metrics: dict[str, float | None]
    platt: dict[str, Interval]
    frozen: dict[str, Interval]

    def as_dict(self) -> dict[str, Any]:
        """What the ledger and MLflow keep, without the window."""
        return {
            "method": self.method,
            "version": self.version,
            **self.metrics,
            "vs_platt": {name: _parts(each) for name, each in self.platt.items()},
            "vs_base": {name: _parts(each) for name, each in self.frozen.items()},
        }


def served_on(backtest: Backtest) -> Served | None:
    """What the newest window got; None where the champion could not be scored on it, or it has no figures.

    A champion of another backbone corrects nothing: the frozen model serves.
    """
    champion = backtest.champion
    if champion.status in ("absent", "other_backbone"):
        who, method, version = FROZEN, FROZEN, None
    elif champion.status == "scored" and champion.method is not None:
        who, method, version = CHAMPION, champion.method, champion.version
    else:
        return None
    score = backtest.newest.get(who)
    if score is None or score.metrics is None:
        return None
    names = [metric.name for metric in paired_metrics()]
    return Served(
        window=backtest.window,
        method=method,
        version=version,
        metrics={name: score.metrics[name] for name in names},
        platt=_against(backtest, who, PLATT, names),
        frozen=_against(backtest, who, FROZEN, names),
    )


def _against(backtest: Backtest, who: str, reference: str, names: list[str]) -> dict[str, Interval]:
    """Served minus the reference; a backtest has references against the champion, so that is turned."""
    if who == reference:
        return {name: Interval(0.0, 0.0, 0.0) for name in names}
    turned = who == CHAMPION
    pair = (reference, who) if turned else (who, reference)
    found = backtest.differences.get(pair[0], {}).get(pair[1])
    if found is None:
        return {}
    return {name: _turned(found[name]) if turned else found[name] for name in names}


def _turned(found: Interval) -> Interval:
    if found.estimate is None:
        return found
    low = None if found.high is None else -found.high
    return Interval(-found.estimate, low, None if found.low is None else -found.low, found.reason)


def _parts(found: Interval) -> dict[str, float | None]:
    return {"estimate": found.estimate, "low": found.low, "high": found.high}
