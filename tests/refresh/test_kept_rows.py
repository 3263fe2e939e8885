"""Past windows in memory are the windows of a refresh: the same rows, the same fits, read once."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from slc_ops.methods import fit
from slc_ops.methods.fitting.window_sums import read_windows
from slc_ops.refresh.kept_rows import KeptRows, PastWindows
from slc_ops.rows.interactions import InteractionLog
from slc_ops.rows.reading import ParquetSource
from slc_ops.settings.deployments import Places
from tests.refresh.school import NEWEST, change_week, of_one_class

WEEKS = [*NEWEST.before(6), NEWEST]


def past(places: Places) -> PastWindows:
    return PastWindows(places.deployment("school"), places.home / "replay", places.home)


def logs(found: PastWindows) -> list[Path]:
    return [path for week in WEEKS if (path := found[week].log) is not None]


@pytest.mark.parametrize("method", ["platt", "slc", "slc_eb", "slc_t"])
def test_a_fit_on_kept_rows_gives_the_same_bits_as_on_rows_that_were_read(
    school: Places, method: str
) -> None:
    paths = logs(past(school))
    assert len(paths) == 7
    kept = KeptRows()
    ours = fit(method, kept.read(paths[:4])).apply(kept.read(paths[4]))
    usual = fit(method, read_windows(paths[:4])).apply(InteractionLog.read(paths[4]))
    assert np.array_equal(ours, usual)


def test_a_window_is_decoded_once(school: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = logs(past(school))
    decoded = []
    usual = ParquetSource.batches

    def counting(self: ParquetSource, columns: Sequence[str], **more: bool):  # type: ignore[no-untyped-def]
        decoded.append(self.describe())
        return usual(self, columns, **more)

    monkeypatch.setattr(ParquetSource, "batches", counting)
    kept = KeptRows()
    for first in range(3):
        fit("slc_eb", kept.read(paths[first : first + 4])).apply(kept.read(paths[first + 4]))
    assert sorted(decoded) == sorted(map(str, paths))
    kept.let_go(paths[-1:])
    kept.read(paths[0])
    assert len(decoded) == len(paths) + 1


def test_a_window_that_a_refresh_would_stop_says_why_and_an_empty_one_has_no_log(school: Places) -> None:
    change_week(school, WEEKS[5], of_one_class)
    change_week(school, WEEKS[3], lambda week: week.slice(0, 0))
    found = past(school)
    assert found[WEEKS[5]].log is None
    assert "label_one_class" in str(found[WEEKS[5]].stopped)
    assert found[WEEKS[3]].log is None
    assert found[WEEKS[3]].stopped is None
    assert found[NEWEST].log is not None


def test_rows_that_fail_a_check_are_put_aside(school: Places) -> None:
    def one_bad(week: pa.Table) -> pa.Table:
        logit = week.column("logit").to_pylist()
        logit[0] = float("nan")
        return week.set_column(week.schema.get_field_index("logit"), "logit", pa.array(logit))

    before = InteractionLog.read(logs(past(school))[-1]).n_rows
    change_week(school, NEWEST, one_bad)
    found = PastWindows(school.deployment("school"), school.home / "again", school.home)
    assert KeptRows().read(logs(found)[-1]).n_rows == before - 1
