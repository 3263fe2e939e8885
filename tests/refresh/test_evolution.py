"""A log whose columns change gives the same results as if they had never changed."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from slc_ops.parameters.parameter_set import ParameterSet
from slc_ops.refresh import pipeline
from slc_ops.refresh.evidence import decide
from slc_ops.refresh.plan import Plan
from slc_ops.settings.environment import Installation
from tests.refresh.school import NEWEST, change_week

LAST = [*NEWEST.before(1), NEWEST]


def with_ids(week: pa.Table, kind: pa.DataType) -> pa.Table:
    """The numbers in the ids, as integers or as texts."""
    for name in ("item_id", "user_id"):
        texts = week[name].cast(pa.string())
        numbers = pc.cast(pc.replace_substring_regex(texts, r"^\D+", ""), pa.int64())
        week = week.set_column(week.schema.get_field_index(name), name, numbers.cast(kind))
    return week


def integers(week: pa.Table) -> pa.Table:
    return with_ids(week, pa.int64())


def changed(week: pa.Table) -> pa.Table:
    """Text instead of integers, a probability instead of the logit, and a new weight column."""
    week = with_ids(week, pa.string())
    score = 1 / (1 + np.exp(-week["logit"].to_numpy()))
    week = week.set_column(week.schema.get_field_index("logit"), "probability", pa.array(score))
    return week.append_column("weight", pa.array(np.ones(len(week))))


def refreshed(school: Installation) -> list[Plan]:
    return [pipeline.refresh(school, "school", week, until="decide") for week in LAST]


@pytest.mark.slow
@pytest.mark.faults(
    "the log changes to text ids, probabilities instead of logits, and a weight column",
    "reported once; the same parameters as if it had always been so",
)
def test_changed_columns_are_reported_once_and_do_not_change_the_result(school: Installation) -> None:
    for week in NEWEST.before(6):
        change_week(school, week, integers)
    for week in LAST:
        change_week(school, week, changed)
    first, second = refreshed(school)
    said = [[each["code"] for each in plan.newest.validation["findings"]] for plan in (first, second)]
    assert said == [["columns_changed"], []]
    (finding,) = first.newest.validation["findings"]
    assert "item_id: int64, now string" in finding["observed"]
    assert "weight: missing, now double" in finding["observed"]

    for week in NEWEST.before(6)[:-1]:
        change_week(school, week, changed)
    uniform = refreshed(school)[-1]
    assert [decide(plan)["method"] for plan in (second, uniform)] == ["slc", "slc"]
    mixed, always = (
        ParameterSet.read(plan.files.parameters).effects["item"].table.sort_by("id").to_pydict()
        for plan in (second, uniform)
    )
    assert mixed["id"] == always["id"]
    np.testing.assert_allclose(mixed["offset"], always["offset"], atol=1e-9)
