"""The same rows give the same bytes for any number of threads, batches and memory limit."""

import numpy as np
import pyarrow.parquet as pq
import pytest

from slc_ops.methods import METHODS, FitOptions, fit
from slc_ops.rows.interactions import InteractionLog
from slc_ops.rows.reading import open_source
from tests.methods.synthetic import table

ROWS = 600_000  # three spans


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """One log in two files: with large row groups, and with small irregular ones."""
    directory = tmp_path_factory.mktemp("determinism")
    rows = table(rows=ROWS, items=3000, weight=False)
    pq.write_table(rows, directory / "large.parquet")
    pq.write_table(rows, directory / "small.parquet", row_group_size=77_777)
    return directory


def written(parameters, directory):
    parameters.write(directory)
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_threads_batches_and_memory_do_not_change_a_byte(method, files, tmp_path):
    one = fit(method, InteractionLog.read(files / "large.parquet"), options=FitOptions(threads=1))
    spilled = InteractionLog(open_source(files / "small.parquet", {}), memory=0)
    many = fit(method, spilled, options=FitOptions(threads=3))
    assert written(one, tmp_path / "one") == written(many, tmp_path / "many")


def test_a_second_fit_gives_the_same_bytes(files, tmp_path):
    log = InteractionLog.read(files / "large.parquet")
    first, second = (written(fit("slc", log), tmp_path / name) for name in ("first", "second"))
    assert first == second


def test_threads_do_not_change_probabilities(files):
    log = InteractionLog.read(files / "large.parquet")
    found = fit("slc_t", log)
    assert np.array_equal(found.apply(log, threads=1), found.apply(log, threads=3))
