"""Search and sort in the item table."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from slc_ops.airflow.page.items import PAGE_ROWS, ItemPage, find_items
from slc_ops.observability.stored import Origin
from slc_ops.parameters.parameter_set import ParameterSet
from slc_ops.refresh.files import RefreshFiles
from slc_ops.settings.environment import Installation
from tests.plugins.school import EVIL, write_items


def shown(refresh: Path, **asked: Any) -> ItemPage | None:
    """A page of the table of a refresh's parameter set."""
    installation = replace(Installation.from_environment(), home=refresh)
    return find_items(installation, Origin(RefreshFiles(refresh), refresh / "parameters"), **asked)


@pytest.fixture
def refresh(tmp_path: Path) -> Path:
    write_items(tmp_path, 120)
    return tmp_path


@pytest.mark.parametrize(
    "sort", ["item", "offset", "size", "shrinkage", "observations", "drift", "detectability"]
)
@pytest.mark.parametrize("descending", [True, False])
def test_the_pages_together_are_the_sorted_table(refresh: Path, sort: str, descending: bool) -> None:
    column = {"item": "item_id", "size": "offset", "observations": "n_obs", "drift": "delta_obs",
              "detectability": "delta_min"}.get(sort, sort)  # fmt: skip
    rows = []
    for page in (1, 2, 3):
        found = shown(refresh, sort=sort, descending=descending, page=page)
        assert found is not None
        assert (found.items, found.matching, found.pages) == (120, 120, 3)
        rows += found.rows
    assert len({row["item_id"] for row in rows}) == len(rows) == 120
    values = [abs(row[column]) if sort == "size" else row[column] for row in rows]
    known = [value for value in values if value is not None]
    assert known == sorted(known, reverse=descending)
    assert values[: len(known)] == known, "items without a value come last"


def test_a_row_joins_both_tables(refresh: Path) -> None:
    (row,) = shown(refresh, search="item-0007").rows  # type: ignore[union-attr]

    drifts = pq.read_table(refresh / "detectability" / "items.parquet").to_pylist()
    offset = ParameterSet.read(refresh / "parameters").effects["item"].of("item-0007")
    assert offset is not None
    assert row["offset"] == offset["offset"][0].as_py()
    assert [row["delta_obs"]] == [d["delta_obs"] for d in drifts if d["item_id"] == "item-0007"]


def test_the_search_ignores_case_and_has_no_special_characters(refresh: Path) -> None:
    assert shown(refresh, search="ITEM-00").matching == 100  # type: ignore[union-attr]
    assert shown(refresh, search="item-00.*").matching == 0  # type: ignore[union-attr]
    assert [row["item_id"] for row in shown(refresh, search="<script").rows] == [EVIL]  # type: ignore[union-attr]


def test_a_page_number_beyond_the_end_gives_the_last_page(refresh: Path) -> None:
    found = shown(refresh, page=99)
    assert found is not None
    assert found.page == 3
    assert len(found.rows) == 120 - 2 * PAGE_ROWS


def test_integer_item_ids_can_be_searched(tmp_path: Path) -> None:
    write_items(tmp_path, 18, integers=True)

    found = shown(tmp_path, search="17", sort="detectability")

    assert found is not None
    assert [row["item_id"] for row in found.rows] == ["17"]


def test_a_method_with_time_bins_shows_the_serving_bin(tmp_path: Path) -> None:
    write_items(tmp_path, 3, method="slc_t")
    last = ParameterSet.read(tmp_path / "parameters").items.to_pandas().groupby("id")["offset"].last()

    found = shown(tmp_path, sort="offset")

    assert found is not None
    assert {row["item_id"]: row["offset"] for row in found.rows} == last.to_dict()


def test_a_method_of_the_score_alone_has_no_items(tmp_path: Path) -> None:
    assert shown(tmp_path) is None
