"""The verdict on a window depends only on its content, its settings and a fixed history."""

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from slc_ops.base.files import read_json
from slc_ops.quality.result import RESULT
from slc_ops.refresh import pipeline
from slc_ops.refresh.plan import Plan
from slc_ops.settings.environment import Installation
from tests.refresh.school import NEWEST, change_week, configure

pytestmark = pytest.mark.slow
BAD = NEWEST.before(2)[0]


def of_one_class(week: pa.Table) -> pa.Table:
    return week.set_column(week.schema.get_field_index("label"), "label", [[1] * week.num_rows])


def planned(installation: Installation, window) -> Plan:  # type: ignore[no-untyped-def]
    pipeline.extract(installation, "school", window)
    return pipeline.read_plan(pipeline.validate(installation, "school", window))


def test_a_stopped_week_is_never_a_baseline(school: Installation) -> None:
    configure(school, link_windows=1, offset_windows=1, evidence_windows=2)
    change_week(school, BAD, of_one_class)

    plan = planned(school, NEWEST)  # needs three windows; the invalid one is the oldest

    assert [each["window"] for each in plan.excluded] == [str(BAD)]
    assert "one_class" in plan.excluded[0]["reason"]
    assert [str(each.window) for each in plan.windows] == [str(NEWEST.before(1)[0]), str(NEWEST)]


def test_the_verdict_on_a_window_is_equal_in_every_refresh_and_on_a_fresh_machine(
    school: Installation, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(school, link_windows=1, offset_windows=1, evidence_windows=2)
    change_week(school, BAD, of_one_class)
    found: list[dict[str, object]] = []
    for window in [*NEWEST.before(1), NEWEST]:
        planned(school, window)
        found.append(verdict_on(school, NEWEST.before(1)[0]))
    assert found[0] == found[1]
    assert str(BAD) not in str(found[0]["trailing"])

    fresh = tmp_path_factory.mktemp("fresh")
    (fresh / "lake").symlink_to(school.home / "lake")
    shutil.copy(school.deployments_file, fresh / "deployments.yaml")
    monkeypatch.setenv("SLC_OPS_HOME", str(fresh))
    there = Installation.from_environment()
    planned(there, NEWEST)
    for window in (NEWEST.before(1)[0], NEWEST, BAD):
        assert verdict_on(there, window) == verdict_on(school, window)


def verdict_on(installation: Installation, window) -> dict[str, object]:  # type: ignore[no-untyped-def]
    directory: Path = installation.windows("school") / window.key
    value: dict[str, object] = read_json(directory / RESULT)
    return value


def test_more_calibration_rows_change_the_key(school: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    from slc_ops.refresh import plan as plans
    from slc_ops.refresh.window_rules import Memory

    first = planned(school, NEWEST)
    monkeypatch.setattr(plans, "memory_up_to", lambda window, *_: Memory((), (window,)))
    second = planned(school, NEWEST)
    assert second.input_digest != first.input_digest
    assert second.directory != first.directory
