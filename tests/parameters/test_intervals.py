"""Intervals compared with draws of the offsets through a reader without shared code."""

import json
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy.stats import norm

from scripts.conformance import COLUMNS, bin_of, by_formula
from slc_ops.serving import Corrector
from tests.serving.exported import GOOD, SUITE

DRAWS = 2000
WITH_VARIANCES = ["ridge", "slc", "slc_eb", "slc_mix", "slc_t"]


def variance_of(params: dict[str, Any], tables: dict[str, Any], row: dict[str, Any]) -> float:
    """The variance of all offsets of a row: the fitted one, or the prior's for an unknown id."""
    total = 0.0
    for name, effect in params["effects"].items():
        mine = [each for each in tables[name] if each["id"] == row[COLUMNS[name]]]
        edges, time = effect["time_edges"], row["time"]
        own = mine and mine[len(mine) - 1 if time is None or not edges else bin_of(time, edges)]
        total += own["offset_var"] if own else effect["prior_var"]
    return total


@pytest.mark.parametrize("name", WITH_VARIANCES)
def test_intervals_are_central_quantiles_of_the_posterior(name: str) -> None:
    directory = SUITE / "good" / name
    params = json.loads((directory / "params.json").read_text(encoding="utf-8"))
    tables = {each: pq.read_table(directory / f"{each}.parquet").to_pylist() for each in params["effects"]}
    ids = dict.fromkeys(COLUMNS.values())
    rows = [ids | row for row in GOOD[name] if row["probability"] is not None and abs(row["logit"]) < 10]
    given = {each: [row[column] for row in rows] for each, column in COLUMNS.items()}
    times = [np.nan if row["time"] is None else row["time"] for row in rows]
    found = Corrector.from_directory(directory).answer(
        given["item"],
        [row["logit"] for row in rows],
        times,
        groups=given["group"],
        users=given["user"],
        interval=True,
    )
    assert found.low is not None
    assert found.high is not None
    random, link = np.random.default_rng(1), params["link"]
    for row, low, high in zip(rows, found.low, found.high, strict=True):
        sd = variance_of(params, tables, row) ** 0.5

        def shifted(by: float, row: dict[str, Any] = row) -> float:
            # Every kind of link with variances adds b0 to the offsets, so shifting b0 shifts the offsets.
            moved = {**params, "link": {**link, "b0": link["b0"] + by}}
            if "cold_link" in params:
                cold = params["cold_link"]
                moved["cold_link"] = {**cold, "b0": cold["b0"] + by}
            return float(by_formula(moved, tables, row) or 0.0)

        ends = [shifted(float(norm.ppf(q)) * sd) for q in (0.025, 0.975)]
        assert [low, high] == pytest.approx(ends, abs=1e-9)
        drawn = np.array([shifted(by) for by in random.normal(0, sd, DRAWS)])
        assert np.mean((low <= drawn) & (drawn <= high)) == pytest.approx(0.95, abs=0.02)
