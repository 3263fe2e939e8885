"""A refresh opens and decodes each window once per process and step."""

from collections import Counter
from pathlib import Path

import pytest

from slc_ops.base.methods import METHODS
from slc_ops.refresh import observed, pipeline
from slc_ops.rows.reading import ParquetSource
from slc_ops.settings.environment import Installation
from tests.refresh.school import NEWEST, configure

pytestmark = pytest.mark.slow


class Opened:
    """Real opens of window files, by step."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.footers: Counter[tuple[str, str]] = Counter()
        self.columns: Counter[tuple[str, str, str]] = Counter()
        self.step = ""
        begin, stream, named = ParquetSource.__init__, ParquetSource.batches, observed.step

        def opened(source, path, *rest, **more):
            self.footers[self.step, window_of(path)] += 1
            begin(source, path, *rest, **more)

        def streamed(source, columns, **more):
            for column in columns:
                self.columns[self.step, window_of(source._path), column] += 1
            return stream(source, columns, **more)

        def noted(step, *subject):
            self.step = step
            return named(step, *subject)

        monkeypatch.setattr(ParquetSource, "__init__", opened)
        monkeypatch.setattr(ParquetSource, "batches", streamed)
        monkeypatch.setattr(observed, "step", noted)


def window_of(path: Path) -> str:
    return path.parent.name if path.name == "log.parquet" else path.name


def test_each_window_is_opened_once_in_each_step_whatever_the_number_of_methods(
    school: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(school, methods=list(METHODS), link_windows=2, forget={"windows": 3})
    pipeline.refresh(school, "school", NEWEST.before(1)[0])
    seen = Opened(monkeypatch)
    pipeline.refresh(school, "school", NEWEST)

    fits = {step for step, *_ in seen.columns if step.startswith("fit")}
    assert fits == {f"fit-{NEWEST.key}"}  # the older fold is reused, and its rows are not read
    evidence = (*fits, "backtest", "detectability", "decide", "publish")
    assert {key: n for key, n in seen.footers.items() if key[0] in evidence and n > 1} == {}
    assert {key: n for key, n in seen.columns.items() if key[0] in evidence and n > 1} == {}
    windows = {window for step, window in seen.footers if step in fits}
    # Three calibration weeks of slc_mix, which include those of the other methods, and one test week.
    assert len(windows) == 4
