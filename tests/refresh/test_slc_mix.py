"""A refresh with ``slc_mix``, which uses more windows than the other methods."""

import pyarrow.parquet as pq
import pytest

from slc_ops.parameters.parameter_set import ParameterSet
from slc_ops.refresh import pipeline
from slc_ops.refresh.evidence import read_backtest
from slc_ops.refresh.fitting import folds_of
from slc_ops.registry import Registry
from slc_ops.settings.environment import Installation
from tests.refresh.school import DEFAULT, NEWEST, change_week, configure


@pytest.fixture
def mixed(school: Installation) -> Installation:
    """A list of methods with slc_mix, with user effects."""
    configure(
        school, methods=["platt_eb", "slc_mix"], effects=["item", "slope", "group", "user"],
        forget={"half_life": 2, "windows": 5}, link_windows=2,
    )  # fmt: skip
    return school


@pytest.mark.slow
def test_slc_mix_uses_more_windows_than_slc_eb_and_a_repeated_refresh_is_equal(
    mixed: Installation,
) -> None:
    plan = pipeline.refresh(mixed, "school", NEWEST, until="decide")
    fold = folds_of(plan).newest
    assert (len(fold.calibration), len(fold.offsets), len(fold.older)) == (2, 3, 5)
    assert fold.forget is not None
    assert [each.window for each in plan.older] == [*NEWEST.before(4), NEWEST]
    path = plan.files.scores / fold.key / "slc_mix" / "parameters"
    found = ParameterSet.read(path)
    rows = sum(pq.read_metadata(each).num_rows for each in fold.older)
    assert found.n_rows == rows
    again = pipeline.refresh(mixed, "school", NEWEST, until="decide")
    assert again.directory == plan.directory


@pytest.mark.slow
def test_other_lists_use_no_more_windows(school: Installation) -> None:
    configure(school, forget={"half_life": 2, "windows": 20})
    plan = pipeline.refresh(school, "school", NEWEST, until="decide")
    assert plan.older == ()
    assert len(plan.windows) == 5  # three calibration windows, two test windows


@pytest.mark.slow
def test_the_default_list_needs_no_groups_and_does_not_warn_about_them(
    school: Installation, recwarn: pytest.WarningsRecorder, caplog: pytest.LogCaptureFixture
) -> None:
    configure(school, methods=DEFAULT)
    for window in (*NEWEST.before(6), NEWEST):
        change_week(school, window, lambda week: week.drop_columns("group_id"))
    reported: list[str] = []
    plan = pipeline.refresh(school, "school", NEWEST, tell=reported.append)
    found = read_backtest(plan)
    assert found.listed == ("base", "platt_eb", "slc_eb", "slc_mix")
    assert found.methods == ("base", "platt", "platt_eb", "slc_eb", "slc_mix")
    assert [each.left_out for each in found.entries] == [{}, {}]
    warned = [str(each.message) for each in recwarn]
    said = [*reported, *warned, caplog.text, *found.notes, plan.files.verdict.read_text()]
    assert "group" not in " ".join(said).lower()
    champion = Registry.open(school).champion("school")
    assert champion is not None
    assert champion.method in ("slc_eb", "slc_mix")
