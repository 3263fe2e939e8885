"""What a control observes in its arms, what it expects, and their agreement."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slc_ops.base.methods import score_only
from slc_ops.base.text import points
from slc_ops.controls.arms import Arm
from slc_ops.evidence.decision import is_ahead
from slc_ops.evidence.uncertainty import Interval, paired_difference
from slc_ops.refresh.evidence import read_backtest
from slc_ops.refresh.plan import Plan
from slc_ops.rows.interactions import InteractionLog

NEGLIGIBLE = 0.005  # AUC: half a point
SAME_RANKING = 1e-12
MODELLED = 0.05  # minimum gain in AUC from item parameters
SUBJECTS = ("slc", "slc_eb")
"""The methods whose gain a control tests: the paper's and ours."""

Clusters = Callable[[InteractionLog], NDArray[Any]]


@dataclass(frozen=True)
class Observation:
    """AUC and NLL per method on the test window, and the subjects' gains.

    ``ahead`` lists the item methods that the decision rule finds ahead of Platt on the test window; a
    champion must be ahead over two windows.
    """

    auc: dict[str, float]
    nll: dict[str, float]
    gains: dict[str, Interval]
    ahead: list[str]


def observe(plan: Plan, clusters: Clusters) -> Observation:
    """Read the backtest and compare the subjects with Platt on the test window, by cluster."""
    from slc_ops.methods import fit

    found = read_backtest(plan)
    ahead = [name for name in found.methods if not score_only(name) and is_ahead(found.entries, name)]
    metrics = {name: score.metrics for name, score in found.newest.items() if score.metrics is not None}
    calibration = InteractionLog.read(plan.windows[-2].log)
    test = InteractionLog.read(plan.newest.log)
    groups = clusters(test)
    platt = fit("platt", calibration).apply(test)
    gains = {
        method: paired_difference(test.label, fit(method, calibration).apply(test), platt, groups).auc
        for method in SUBJECTS
    }
    return Observation(
        auc={name: m.auc for name, m in metrics.items() if m.auc is not None},
        nll={name: m.nll for name, m in metrics.items() if m.nll is not None},
        gains=gains,
        ahead=ahead,
    )


def by_user(log: InteractionLog) -> NDArray[Any]:
    """Return one cluster per user."""
    return np.asarray(log.user_codes)


def by_day(log: InteractionLog) -> NDArray[Any]:
    """Return one cluster per day: flights of a day share weather, a stronger dependence than the aircraft."""
    return np.floor(np.asarray(log.time) / 86_400).astype(np.int64)


@dataclass(frozen=True)
class Check:
    """One expectation about one arm."""

    arm: str
    check: str
    expected: str
    observed: str
    passed: bool


@dataclass(frozen=True)
class ControlVerdict:
    """The verdict of a control; it passes if every check passes."""

    control: str
    data: str
    checks: list[Check]
    arms: list[dict[str, Any]]
    report: str | None = None
    run_id: str | None = None
    notes: list[str] = field(default_factory=list)
    replays: dict[str, Any] = field(default_factory=dict)
    """The replay of each arm, as a dictionary."""

    @property
    def passed(self) -> bool:
        """True if all checks passed; False without checks."""
        return bool(self.checks) and all(check.passed for check in self.checks)

    @property
    def sentence(self) -> str:
        """The verdict as one line of text."""
        failed = [check for check in self.checks if not check.passed]
        if self.passed:
            arms = len(self.arms) + len(self.replays)
            return f"The control {self.control} passes: {len(self.checks)} checks on {arms} arms."
        first = f": {failed[0].arm}: {failed[0].expected}, observed {failed[0].observed}" if failed else ""
        return f"The control {self.control} fails {len(failed)} of {len(self.checks)} checks{first}"

    def as_dict(self) -> dict[str, Any]:
        """Return all fields, with ``passed`` and ``sentence``, as JSON values."""
        return {**asdict(self), "passed": self.passed, "sentence": self.sentence}


def check_arms(arms: Sequence[Arm], seen: dict[str, Observation]) -> list[Check]:
    """Compare each arm's results with the expectations of its role."""
    contrast = next((seen[arm.name] for arm in arms if arm.role == "contrast"), None)
    return [check for arm in arms for check in _checks(arm, seen[arm.name], contrast)]


def _checks(arm: Arm, found: Observation, contrast: Observation | None) -> Iterator[Check]:
    check = partial(Check, arm.name)
    moved = abs(found.auc["platt"] - found.auc["base"])
    expected = f"Platt scaling changes the AUC by at most {SAME_RANKING:g}"
    yield check("platt", expected, f"{moved:g}", moved <= SAME_RANKING)
    for method, gain in found.gains.items():
        if arm.role in ("positive", "contrast"):
            expected = f"{method} gains AUC over Platt, interval above 0"
            yield check(f"{method} gains", expected, _gain(gain), gain.low is not None and gain.low > 0)
        if arm.role == "negative":
            limit = f"less than {100 * NEGLIGIBLE:g} points of AUC over Platt, interval included"
            passed = gain.high is not None and gain.high < NEGLIGIBLE
            yield check(f"{method} gains nothing", f"{method} gains {limit}", _gain(gain), passed)
    if arm.role == "negative" and contrast is not None:
        worth = found.auc["base"] - contrast.auc["base"]
        expected = (
            f"the backbone ranks at least {100 * MODELLED:g} points of AUC better than one without items"
        )
        yield check("models its items", expected, f"{points(worth)} points", worth >= MODELLED)
    if arm.role in ("contrast", "turning"):
        wanted = arm.role == "contrast"
        expected = f"{'' if wanted else 'not: '}an item method is ahead of Platt by the decision's rule"
        yield check("decision", expected, ", ".join(found.ahead) or "none", bool(found.ahead) == wanted)


def _gain(found: Interval) -> str:
    """Format an AUC difference in percentage points, with its interval.

    >>> _gain(Interval(0.005, 0.002, 0.008))
    '+0.50 [+0.20, +0.80] points'
    """
    return f"{found.text(points)} points" if found.estimate is not None else found.text()
