"""The Great Expectations suite, the source of every verdict on a window.

The suite evaluates the statistics table of :mod:`slc_ops.quality.measures`: one row, so that ten million log
rows cost one Arrow pass and not one pandas pass per expectation. A deployment's own expectations are
evaluated on the rows: :mod:`slc_ops.quality.own`.
"""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from slc_ops.base.errors import ValidationStopped
from slc_ops.quality.rules import Rule

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Evaluated:
    """Great Expectations' result for one rule."""

    rule: Rule
    expectation: str
    observed: Any
    met: bool

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form for the result file."""
        rule = self.rule
        return {
            "code": rule.code,
            "severity": rule.severity,
            "sentence": rule.sentence,
            "expectation": self.expectation,
            "column": rule.measure,
            "expected": rule.expected,
            "observed": self.observed,
            "met": self.met,
        }


def library() -> Any:
    """Import Great Expectations without telemetry; the library reads the variable on import."""
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    with _without_spark_connect():
        import great_expectations as gx

    return gx


@contextmanager
def _without_spark_connect() -> Iterator[None]:
    """Hide Spark Connect from the import of Great Expectations.

    In a Python without a main file (``python -c``, a worker of pytest-xdist) PySpark takes that import for
    its own doctests, and ends the process with exit code 0 if packages of Spark Connect are missing.
    """
    name = "pyspark.sql.connect"
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment] # "do not import"
    try:
        yield
    finally:
        del sys.modules[name]


def batch_of(frame: "pd.DataFrame") -> Any:
    """Return a frame as a batch for a suite, without progress bars."""
    context = library().get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    definition = (
        context.data_sources.add_pandas("window")
        .add_dataframe_asset("rows")
        .add_batch_definition_whole_dataframe("window")
    )
    return definition.get_batch({"dataframe": frame})


def evaluate(table: Mapping[str, Any], rules: Sequence[Rule]) -> list[Evaluated]:
    """Evaluate the rules whose measure is defined with Great Expectations."""
    gx = library()
    import pandas as pd

    asked = [rule for rule in rules if rule.measure in table]
    batch = batch_of(pd.DataFrame({name: [value] for name, value in table.items()}))
    suite = gx.ExpectationSuite("interaction_log", [expectation(rule, n) for n, rule in enumerate(asked)])
    results = batch.validate(suite, result_format="SUMMARY").results
    answers = {answer.expectation_config.meta["rule"]: answer for answer in results}
    return [evaluated(rule, answers[n], table[rule.measure]) for n, rule in enumerate(asked)]


def evaluated(rule: Rule, answer: Any, observed: Any) -> Evaluated:
    """Return one result; an expectation that could not be evaluated raises :class:`ValidationStopped`."""
    trouble = answer.exception_info or {}
    if trouble.get("raised_exception", bool(trouble)) and not answer.success:
        raise ValidationStopped(f"Great Expectations could not evaluate {rule.code}: {trouble}")
    return Evaluated(rule, answer.expectation_config.type, observed, bool(answer.success))


def expectation(rule: Rule, number: int) -> Any:
    """Return a rule as an expectation.

    The table has one row, so its maximum is its value. Aggregate expectations cost a fifth of those on every
    value.
    """
    import great_expectations.expectations as gxe

    common: dict[str, Any] = {
        "column": rule.measure,
        "severity": rule.severity,
        "meta": {"rule": number, "code": rule.code},
    }
    if rule.values:
        return gxe.ExpectColumnDistinctValuesToBeInSet(value_set=list(rule.values), **common)
    return gxe.ExpectColumnMaxToBeBetween(min_value=rule.low, max_value=rule.high, **common)
