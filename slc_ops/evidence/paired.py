"""Methods against one of them on the same rows, from their users' sums: differences with intervals."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from slc_ops.base.once import Once
from slc_ops.evidence.evaluation import ALL_ROWS, Evaluator, evaluate
from slc_ops.evidence.metrics import Metrics
from slc_ops.evidence.uncertainty import Interval, PairedDifference, UserSums, differences
from slc_ops.evidence.user_keys import UsersOf
from slc_ops.parameters.parameter_set import ParameterSet
from slc_ops.rows.rows import Log

NO_SCIPY = "intervals need more: pip install 'slc-ops[report]'"


@dataclass(frozen=True)
class WithUsers:
    """The metrics of a parameter set, and its sums by user for intervals."""

    metrics: Metrics
    users: UserSums

    def as_dict(self) -> dict[str, Any]:
        """The JSON form of the metrics."""
        return self.metrics.as_dict()


class EvaluatorWithUsers:
    """Metrics and users' sums of one parameter set after the other on a log, by one sort each.

    What the sets share (the users' clusters, the rows and the positive ones of each) is worked out once.
    """

    def __init__(self) -> None:
        self._once, self._evaluator = Once(), Evaluator()

    def __call__(self, parameters: ParameterSet, test: Log, threads: int | None = None) -> WithUsers:
        """The metrics and the users' sums of a set."""
        log = test.in_memory()
        users = self._once.get(id(test), lambda: UsersOf(test))  # which keeps the log, so that its id lasts
        out = None if log is None else self._evaluator.memory(log.n_rows)
        found = evaluate(parameters, test, threads, users=users, out=out)
        return WithUsers(found.metrics(), found.users([])[ALL_ROWS])


def against(sums: Mapping[str, UserSums], reference: str) -> dict[str, PairedDifference]:
    """Every other method minus the reference; without scipy, the differences alone."""
    if reference not in sums:
        return {}
    other = sums[reference]
    names = [name for name in sums if name != reference]
    if find_spec("scipy") is not None:
        return dict(zip(names, differences([(sums[name], other) for name in names]), strict=True))
    return {name: _without_intervals(sums[name], other) for name in names}


def _without_intervals(one: UserSums, other: UserSums) -> PairedDifference:
    def minus(a: float | None, b: float | None) -> Interval:
        return Interval(None if a is None or b is None else a - b, reason=NO_SCIPY)

    found = {"auc": minus(one.auc, other.auc)}
    found |= {name: minus(one.mean(name), other.mean(name)) for name in one.means}
    return PairedDifference(found, one.rows, int((one.weight > 0).sum()), 0.95)
