"""Poisoned logs through complete refreshes: one heavy user or flipped labels in three weeks."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slc_ops.parameters.parameter_set import ParameterSet
from slc_ops.quality.heavy_users import CODE
from slc_ops.refresh import pipeline
from slc_ops.refresh.plan import Plan
from slc_ops.settings.environment import Installation
from tests.refresh.school import NEWEST, change_week

pytestmark = pytest.mark.chaos
LAST = [*NEWEST.before(2), NEWEST]
ITEM = "item-000007"
ROWS = 1500


def replaced(week: pa.Table, **columns: list[object]) -> pa.Table:
    for name, values in columns.items():
        place = week.schema.get_field_index(name)
        week = week.set_column(place, name, pa.array(values, week.schema.field(place).type))
    return week


def flooded(week: pa.Table) -> pa.Table:
    """One user answers one item repeatedly, always wrong."""
    first = week["event_id"][0].as_py()
    again = replaced(
        pa.concat_tables([week.slice(0, 1)] * ROWS),
        event_id=[f"{first}-{k}" for k in range(ROWS)],
        user_id=["mallory"] * ROWS,
        item_id=[ITEM] * ROWS,
        label=[0] * ROWS,
    )
    return pa.concat_tables([week, again])


def turned(week: pa.Table) -> pa.Table:
    """One label in ten is flipped."""
    label = week["label"].to_numpy().copy()
    label[::10] = 1 - label[::10]
    return replaced(week, label=label.tolist())


def refreshed(installation: Installation) -> tuple[Plan, ParameterSet]:
    plans = [pipeline.refresh(installation, "school", week, tell=lambda _: None) for week in LAST]
    return plans[-1], ParameterSet.read(plans[-1].files.parameters)


def offset(parameters: ParameterSet) -> float:
    table = parameters.effects["item"].table
    return float(table["offset"][table["id"].to_pylist().index(ITEM)].as_py())


@pytest.mark.faults(
    "one user answers one item 1,500 times a week for three weeks, refreshed each week",
    "named every week; the item is fitted on at most as much weight of this user as of all others",
)
def test_one_user_does_not_dominate_an_item(school: Installation) -> None:
    for week in LAST:
        change_week(school, week, flooded)
    plan, found = refreshed(school)
    codes = [each["code"] for each in plan.newest.validation["findings"]]
    assert CODE in codes
    table = found.effects["item"].table
    weight = dict(zip(table["id"].to_pylist(), table["n_obs"].to_pylist(), strict=True))[ITEM]
    (part,) = (school.home / "lake" / "school" / f"week={NEWEST.key}").glob("*.parquet")
    week = pq.read_table(part, partitioning=None)
    honest = sum(
        item == ITEM and user != "mallory"
        for item, user in zip(week["item_id"].to_pylist(), week["user_id"].to_pylist(), strict=True)
    )
    assert 0 < honest < 100  # few enough that fifteen hundred rows would dominate
    assert weight < 3 * 2 * 2 * honest
    assert -2.0 < offset(found) < 0.5


@pytest.mark.faults(
    "one label in ten is flipped for three weeks, refreshed each week",
    "served probabilities are no worse than the frozen model on the original labels",
)
def test_with_flipped_labels_the_result_is_no_worse_than_the_frozen_model(school: Installation) -> None:
    (part,) = (school.home / "lake" / "school" / f"week={NEWEST.key}").glob("*.parquet")
    truth = pq.read_table(part, partitioning=None)
    for week in LAST:
        change_week(school, week, turned)
    _, found = refreshed(school)
    label, logit = truth["label"].to_numpy(), truth["logit"].to_numpy()
    served = found.correct(truth["item_id"], logit)
    frozen = 1 / (1 + np.exp(-logit))
    worse, better = (-np.mean(np.log(np.where(label == 1, p, 1 - p))) for p in (frozen, served))
    assert better < worse
