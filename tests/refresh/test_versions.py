"""A refresh over New Year whose change of method is held: all readers find its renewal."""

from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest

from slc_ops.airflow.page.items import find_items
from slc_ops.base.files import read_json, write_json
from slc_ops.base.window import Window
from slc_ops.demo.simulate import simulate
from slc_ops.observability.metrics import collect
from slc_ops.observability.stored import refresh_of
from slc_ops.refresh import pipeline
from slc_ops.refresh.erasure import erase
from slc_ops.refresh.plan import Plan
from slc_ops.refresh.versions import (
    find_by_run,
    held_in_a_row,
    newest_refresh,
    outcomes,
    read_outcome,
    registered_by,
    version_of,
)
from slc_ops.registry import Registry
from slc_ops.settings.environment import Installation
from tests.refresh.school import change_week, configure
from tests.registry.factory import installation_in

DECEMBER = Window.parse("2025-12-22/2025-12-29")
TURN = Window.parse("2025-12-29/2026-01-05")
JANUARY = Window.parse("2026-01-05/2026-01-12")


def other_items(week: pa.Table) -> pa.Table:
    """A week in which all item effects change, so that learned offsets do harm."""
    items = np.array(sorted(set(week["item_id"].to_pylist())))
    names = dict(zip(items, np.random.default_rng(week.num_rows).permutation(items), strict=True))
    renamed = pa.array([names[item] for item in week["item_id"].to_pylist()], week["item_id"].type)
    return week.set_column(week.column_names.index("item_id"), "item_id", renamed)


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> tuple[Installation, Plan]:
    """``slc`` serves since December; in January a change of method is due but held."""
    installation = installation_in(tmp_path_factory.mktemp("home"))
    simulate(installation.home / "lake" / "school", weeks=7, users=300, items=60, seed=11, start="2025-11-24")
    configure(installation)
    pipeline.refresh(installation, "school", DECEMBER)
    for window in (TURN, JANUARY):
        change_week(installation, window, other_items)
    plan = pipeline.refresh(installation, "school", JANUARY, until="decide")
    verdict = read_json(plan.files.verdict)
    assert verdict["decision"]["current"] == "slc"
    assert verdict["kind"] in ("change", "retire")
    write_json(plan.files.verdict, verdict | {"verdict": "hold"}, sealed=True)  # as by the limit of a slice
    pipeline.publish(installation, plan)
    pipeline.promote(installation, plan)
    return installation, plan


@pytest.mark.slow
def test_the_serving_method_is_renewed_while_a_change_is_held(held: tuple[Installation, Plan]) -> None:
    """Also with ``gate: auto``: a lasting hold must not freeze the champion's parameters."""
    installation, plan = held
    champion = Registry.open(installation).champion("school")
    renewed = version_of(plan.files, "renewal")
    assert renewed is not None
    assert champion is not None
    assert (champion.number, champion.method, champion.window) == (renewed.number, "slc", JANUARY)
    assert Registry.open(installation).history("school")[-1].kind == "renewal"


@pytest.mark.slow
def test_a_held_window_that_renewed_the_champion_does_not_count_as_held(
    held: tuple[Installation, Plan],
) -> None:
    installation, _ = held
    decided = list(outcomes(installation.refreshes("school")))
    assert held_in_a_row(decided, Registry.open(installation).history("school")) == 0


def test_the_page_shows_the_renewed_version_with_its_items(held: tuple[Installation, Plan]) -> None:
    installation, plan = held
    champion = Registry.open(installation).champion("school")
    assert champion is not None
    origin = refresh_of(installation, champion)
    assert origin is not None
    assert (origin.files.directory, origin.parameters) == (plan.directory, plan.files.renewed_parameters)
    items = find_items(installation, origin)
    assert items is not None
    assert items.items == read_json(plan.files.renewed_parameters / "params.json")["counts"]["items"]


def test_the_metrics_are_of_january_with_the_champions_items(
    held: tuple[Installation, Plan],
) -> None:
    installation, plan = held
    metrics = {metric.name: metric for metric in collect(installation, datetime(2026, 1, 13, tzinfo=UTC))}
    assert [sample.value for sample in metrics["slc_ops_item_coverage"].samples] == [1.0]
    newest = read_json(plan.files.backtest)["scores"][JANUARY.key]
    shown = {
        (sample.labels["method"], sample.labels["metric"]): sample.value
        for sample in metrics["slc_ops_quality"].samples
    }
    assert shown["slc", "nll"] == newest["slc"]["metrics"]["nll"]
    assert shown["champion", "nll"] == newest["champion"]["metrics"]["nll"]


def test_a_report_can_be_found_by_the_run_of_a_renewal(held: tuple[Installation, Plan]) -> None:
    installation, plan = held
    for version in registered_by(plan.files):
        assert find_by_run(installation, version.run_id) == plan


def test_the_newest_refresh_is_the_last_decided_whatever_the_file_times(
    held: tuple[Installation, Plan],
) -> None:
    installation, plan = held
    configure(installation, prior_var=2.0)
    again = pipeline.refresh(installation, "school", JANUARY, until="decide")
    configure(installation)
    assert again.directory != plan.directory
    plan.files.verdict.touch()  # a restored backup or a copy
    plan.files.outcome.touch()
    assert [read_outcome(each.files).order for each in (plan, again)] == [1, 2]
    assert newest_refresh(installation, "school", JANUARY) == again


@pytest.mark.slow
def test_a_receipt_names_the_renewed_version(held: tuple[Installation, Plan]) -> None:
    installation, plan = held
    (receipt,) = erase(installation, ["user-000017"], actor="ann")
    assert {version.number for version in registered_by(plan.files)} <= set(receipt.details["versions"])
