"""``quality.expectations``: a deployment's own rules, as expectations of Great Expectations.

The table of types is part of slc_ops, so that the file can be validated without the library. It contains the
types that validate a pandas frame of the log's columns by values alone. Excluded: conditions
(``row_condition`` is evaluated as code), SQL, other tables, JSON schemas (they may reference addresses), and
column types, which the built-in suite validates.
"""

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, JsonValue, model_validator

from slc_ops.settings.blocks import SettingsBlock
from slc_ops.settings.sources import CONTRACT_COLUMNS

RANGE = ("min_value", "max_value", "strict_min", "strict_max")
VALUES = ("column", "mostly")
PAIR = ("column_A", "column_B", "mostly", "ignore_row_if")
SEVERAL = ("column_list", "mostly", "ignore_row_if")
COLUMN_ARGUMENTS = ("column", "column_A", "column_B", "column_list")

ARGUMENTS: dict[str, tuple[str, ...]] = {
    "expect_column_distinct_values_to_be_in_set": ("column", "value_set"),
    "expect_column_distinct_values_to_contain_set": ("column", "value_set"),
    "expect_column_distinct_values_to_equal_set": ("column", "value_set"),
    "expect_column_max_to_be_between": ("column", *RANGE),
    "expect_column_mean_to_be_between": ("column", *RANGE),
    "expect_column_median_to_be_between": ("column", *RANGE),
    "expect_column_min_to_be_between": ("column", *RANGE),
    "expect_column_most_common_value_to_be_in_set": ("column", "value_set", "ties_okay"),
    "expect_column_pair_values_a_to_be_greater_than_b": (*PAIR, "or_equal"),
    "expect_column_pair_values_to_be_equal": PAIR,
    "expect_column_pair_values_to_be_in_set": (*PAIR, "value_pairs_set"),
    "expect_column_proportion_of_non_null_values_to_be_between": ("column", *RANGE),
    "expect_column_proportion_of_unique_values_to_be_between": ("column", *RANGE),
    "expect_column_quantile_values_to_be_between": ("column", "quantile_ranges", "allow_relative_error"),
    "expect_column_stdev_to_be_between": ("column", *RANGE),
    "expect_column_sum_to_be_between": ("column", *RANGE),
    "expect_column_to_exist": ("column",),
    "expect_column_unique_value_count_to_be_between": ("column", *RANGE),
    "expect_column_value_lengths_to_be_between": (*VALUES, *RANGE),
    "expect_column_value_lengths_to_equal": (*VALUES, "value"),
    "expect_column_value_z_scores_to_be_less_than": (*VALUES, "threshold", "double_sided"),
    "expect_column_values_to_be_between": (*VALUES, *RANGE),
    "expect_column_values_to_be_decreasing": (*VALUES, "strictly"),
    "expect_column_values_to_be_in_set": (*VALUES, "value_set"),
    "expect_column_values_to_be_increasing": (*VALUES, "strictly"),
    "expect_column_values_to_be_null": VALUES,
    "expect_column_values_to_be_unique": VALUES,
    "expect_column_values_to_match_regex": (*VALUES, "regex"),
    "expect_column_values_to_match_regex_list": (*VALUES, "regex_list", "match_on"),
    "expect_column_values_to_match_strftime_format": (*VALUES, "strftime_format"),
    "expect_column_values_to_not_be_in_set": (*VALUES, "value_set"),
    "expect_column_values_to_not_be_null": VALUES,
    "expect_column_values_to_not_match_regex": (*VALUES, "regex"),
    "expect_column_values_to_not_match_regex_list": (*VALUES, "regex_list"),
    "expect_compound_columns_to_be_unique": SEVERAL,
    "expect_multicolumn_sum_to_equal": (*SEVERAL, "sum_total"),
    "expect_select_column_values_to_be_unique_within_record": SEVERAL,
    "expect_table_row_count_to_be_between": RANGE,
    "expect_table_row_count_to_equal": ("value",),
}
"""Type → its allowed arguments; a test compares the table with the library."""


def _plain(value: JsonValue) -> JsonValue:
    """Refuse mappings with keys that begin with ``$``: Great Expectations evaluates them."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if isinstance(value, dict) and any(key.startswith("$") for key in value):
        raise ValueError("values only: a key that begins with $ would be evaluated")
    for each in inner:
        _plain(each)
    return value


class OwnExpectation(SettingsBlock):
    """One entry: a type of Great Expectations, its arguments, and the effect of a failure."""

    type: str = Field(description="the type in Great Expectations: `expect_column_values_to_be_between`")
    kwargs: dict[str, Annotated[JsonValue, AfterValidator(_plain)]] = Field(
        default={}, description="its arguments; columns by their names in the log"
    )
    severity: Literal["stop", "warn"] = Field(
        default="stop", description="if it is not met: stop the refresh, or warn"
    )

    @model_validator(mode="after")
    def _can_be_asked(self) -> Self:
        from difflib import get_close_matches

        if self.type not in ARGUMENTS:
            close = get_close_matches(self.type, ARGUMENTS, n=1)
            hint = f"did you mean {close[0]!r}?" if close else "docs/settings.md says which are allowed"
            raise ValueError(f"there is no expectation {self.type!r}; {hint}")
        allowed = ARGUMENTS[self.type]
        for name in self.kwargs:
            if name not in allowed:
                raise ValueError(f"{self.type} has no argument {name!r}; it takes: {', '.join(allowed)}")
        for name in COLUMN_ARGUMENTS:
            if name in allowed and not self.kwargs.get(name):
                raise ValueError(f"{self.type} needs the argument {name!r}")
        for column in self.columns:
            if column not in CONTRACT_COLUMNS:
                raise ValueError(f"the log has no column {column!r}; it has: {', '.join(CONTRACT_COLUMNS)}")
        return self

    @property
    def columns(self) -> list[str]:
        """Return the columns of its arguments."""
        named = [self.kwargs[name] for name in COLUMN_ARGUMENTS if name in self.kwargs]
        return [str(each) for value in named for each in (value if isinstance(value, list) else [value])]
