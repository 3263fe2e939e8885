"""The Great Expectations suite. Every verdict on a window comes from it.

The suite evaluates the statistics table of :mod:`slc_ops.quality.measures`: one row, so that ten million
log rows cost one Arrow pass and not one pandas pass per expectation. What a deployment expects beside it
is evaluated on the rows: :mod:`slc_ops.quality.own`.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from slc_ops.base.errors import ValidationStopped
from slc_ops.quality.rules import Rule

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Evaluated:
    """What Great Expectations said about one rule."""

    rule: Rule
    expectation: str
    observed: Any
    met: bool

    def as_dict(self) -> dict[str, Any]:
        """For the result file."""
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
    """Great Expectations without telemetry: that is read when the library is imported."""
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    import great_expectations as gx

    return gx


def batch_of(frame: "pd.DataFrame") -> Any:
    """A frame as a batch that a suite can validate, without progress bars."""
    context = library().get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    definition = (
        context.data_sources.add_pandas("window")
        .add_dataframe_asset("rows")
        .add_batch_definition_whole_dataframe("window")
    )
    return definition.get_batch({"dataframe": frame})


def evaluate(table: Mapping[str, Any], rules: Sequence[Rule]) -> list[Evaluated]:
    """Let Great Expectations evaluate the table by the rules whose measure is defined."""
    gx = library()
    import pandas as pd

    asked = [rule for rule in rules if rule.measure in table]
    batch = batch_of(pd.DataFrame({name: [value] for name, value in table.items()}))
    suite = gx.ExpectationSuite("interaction_log", [expectation(rule, n) for n, rule in enumerate(asked)])
    results = batch.validate(suite, result_format="SUMMARY").results
    answers = {answer.expectation_config.meta["rule"]: answer for answer in results}
    return [evaluated(rule, answers[n], table[rule.measure]) for n, rule in enumerate(asked)]


def evaluated(rule: Rule, answer: Any, observed: Any) -> Evaluated:
    """One answer; an expectation that could not be evaluated is not a pass."""
    trouble = answer.exception_info or {}
    if trouble.get("raised_exception", bool(trouble)) and not answer.success:
        raise ValidationStopped(f"Great Expectations could not evaluate {rule.code}: {trouble}")
    return Evaluated(rule, answer.expectation_config.type, observed, bool(answer.success))


def expectation(rule: Rule, number: int) -> Any:
    """A rule in Great Expectations' words.

    The table has one row, so its maximum is its value. Expectations about a column's aggregate cost a fifth
    of those that look at every value.
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
