"""The plan of a refresh: which windows it learns from, and how it keeps their rows."""

from pathlib import Path

import pyarrow.parquet as pq

from slc_ops.base.parquet import part_name
from slc_ops.refresh.plan import Plan, PlannedWindow, make_plan
from slc_ops.rows.engine import LOCAL
from slc_ops.settings.deployments import Deployment
from slc_ops.settings.sources import LakeSource
from tests.evidence.worlds import rows, week

SETTINGS = {
    "methods": ["slc_mix"], "link_windows": 1, "offset_windows": 2, "evidence_windows": 1,
    "forget": {"windows": 3, "half_life": 2.0},
}  # fmt: skip


def planned(number: int, log: Path = Path("log.parquet")) -> PlannedWindow:
    return PlannedWindow(week(number), log, "digest", {}, "rows")


def test_the_published_fit_learns_from_the_last_windows_and_remembers_older_ones_where_it_forgets() -> None:
    windows = tuple(planned(number) for number in (0, 1, 3, 4))  # week 2 has no rows
    plan = Plan("demo", week(4), windows, (), SETTINGS, "", "", "", Path())
    assert [each.window for each in plan.learned] == [week(3), week(4)]
    assert [each.window for each in plan.older] == [week(3), week(4)]
    more = Plan("demo", week(4), windows, (), SETTINGS | {"offset_windows": 5}, "", "", "", Path())
    assert more.learned == windows


def test_the_parts_of_a_window_stay_readable_after_late_rows_replace_them(tmp_path: Path) -> None:
    log = tmp_path / "windows" / "log.parquet"
    log.mkdir(parents=True)
    table = rows(0, n=40)
    for number in range(2):
        pq.write_table(table.slice(20 * number, 20), log / part_name(number))
    deployment = Deployment(source=LakeSource(path="lake"))
    plan = make_plan(
        "demo", deployment, week(0), [planned(0, log)], [], tmp_path / "refreshes", lambda _: "digest"
    )
    assert plan is not None
    pinned = plan.newest.log
    assert pinned.parent == plan.files.windows
    for part in sorted(log.iterdir()):
        assert part.samefile(pinned / part.name)
        part.unlink()
    assert LOCAL.read(pinned).n_rows == 40


def test_no_plan_is_made_if_late_rows_replaced_a_window_meanwhile(tmp_path: Path) -> None:
    log = tmp_path / "log.parquet"
    pq.write_table(rows(0, n=20), log)
    deployment, refreshes = Deployment(source=LakeSource(path="lake")), tmp_path / "refreshes"
    assert make_plan("demo", deployment, week(0), [planned(0, log)], [], refreshes, lambda _: "other") is None
    assert not list(refreshes.rglob("plan.json"))
