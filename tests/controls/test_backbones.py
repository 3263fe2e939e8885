"""The frozen models of the controls: which columns they use."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slc_ops.base.errors import InputError
from slc_ops.base.window import Window
from slc_ops.controls import film_backbones
from slc_ops.controls.flight_backbone import features, known, scored, train
from slc_ops.controls.flights import SCHEMA, Flights
from slc_ops.evidence.auc import auc

MARCH = Window.parse("2018-03-01/2018-04-01")


def made_up(rows: int = 20_000, seed: int = 0) -> pa.Table:
    """Lateness depends on the hour and, strongly, on the route."""
    rng = np.random.default_rng(seed)
    route = rng.integers(0, 20, rows)
    minute = rng.integers(0, 30 * 1440, rows)
    eta = 0.15 * (minute // 60 % 24 - 12) + np.linspace(-2, 2, 20)[route]
    start = datetime(2018, 3, 1, tzinfo=UTC)
    return pa.table(
        {
            "departure": [start + timedelta(minutes=int(m)) for m in minute],
            "carrier": pa.array(np.array(["AA", "DL", "UA"])[rng.integers(0, 3, rows)]),
            "route": [f"R{k:02d}" for k in route],
            "aircraft": [f"N{k}" for k in rng.integers(0, 200, rows)],
            "distance": rng.uniform(100, 3000, rows).astype(np.float32),
            "late": (rng.random(rows) < 1 / (1 + np.exp(-eta))).astype(np.int8),
        },
        schema=SCHEMA,
    )


@pytest.fixture
def flights(tmp_path: Path) -> Flights:
    pq.write_table(made_up(), tmp_path / "a.parquet")
    return Flights(tmp_path, "made up")


def test_rare_routes_are_left_out(tmp_path: Path) -> None:
    table = made_up(2000)
    rare = table.slice(0, 3).set_column(2, "route", pa.array(["RARE"] * 3))
    pq.write_table(pa.concat_tables([table, rare]), tmp_path / "a.parquet")
    found = known(Flights(tmp_path, "made up"), MARCH)
    assert "RARE" not in found.routes.to_pylist()
    assert len(found.routes) == 20


def test_bba_ignores_the_route_and_bbb_uses_it(flights: Flights) -> None:
    learned = known(flights, MARCH)
    batch = next(flights.batches(MARCH))
    swapped = batch.set_column(
        2, "route", batch.column("route").take(pa.array(np.arange(batch.num_rows)[::-1]))
    )
    aware, blind = (
        (features(batch, learned, routes=routes) != features(swapped, learned, routes=routes)).nnz
        for routes in (True, False)
    )
    assert blind == 0
    assert aware > 0


def test_unseen_categories_keep_the_shape_of_the_features(flights: Flights) -> None:
    learned = known(flights, MARCH)
    batch = next(flights.batches(MARCH)).slice(0, 2)
    strange = batch.set_column(1, "carrier", pa.array(["ZZ", None])).set_column(
        2, "route", pa.array(["X", "Y"])
    )
    assert features(strange, learned, routes=True).shape == features(batch, learned, routes=True).shape


@pytest.mark.slow
def test_the_route_aware_backbone_ranks_better_and_both_are_roughly_calibrated(flights: Flights) -> None:
    learned = known(flights, MARCH)
    found = {}
    for backbone in ("bbA", "bbB"):
        model = train(flights, learned, MARCH, backbone, seed=0)
        table = pa.Table.from_batches(scored(flights, learned, MARCH, model, backbone, 0))
        logit, label = table["logit"].to_numpy(), table["label"].to_numpy()
        assert abs(np.mean(1 / (1 + np.exp(-logit))) - label.mean()) < 0.05
        found[backbone] = auc(label, logit).value
    assert found["bbB"] > found["bbA"] + 0.1
    assert table["event_id"].to_pylist()[:2] == ["2018-03-01-0", "2018-03-01-1"]


@pytest.mark.slow
def test_the_seed_determines_the_result(flights: Flights) -> None:
    learned = known(flights, MARCH)
    weights = [train(flights, learned, MARCH, "bbA", seed).coef_ for seed in (0, 0, 1)]
    np.testing.assert_array_equal(weights[0], weights[1])
    assert not np.array_equal(weights[0], weights[2])


def test_a_training_period_without_flights_is_refused(flights: Flights) -> None:
    with pytest.raises(InputError, match="no flights in the training period"):
        known(flights, Window.parse("2017-01-01/2018-01-01"))


def films(rows: int = 20_000, users: int = 200, items: int = 100, seed: int = 0) -> pa.Table:
    rng = np.random.default_rng(seed)
    user, item = rng.integers(0, users, rows), rng.integers(0, items, rows)
    world = np.random.default_rng(99)
    eta = world.normal(0, 0.7, users)[user] + world.normal(0, 1.2, items)[item]
    positive = (rng.random(rows) < 1 / (1 + np.exp(-eta))).astype(np.int8)
    return pa.table({"user": user, "item": item, "positive": positive})


@pytest.mark.parametrize("backbone", film_backbones.BACKBONES)
def test_film_backbones_model_their_films_and_the_contrast_does_not(backbone: str) -> None:
    learning, later = films(), films(seed=1)

    def rank(name: str) -> float:
        logits = film_backbones.train(name, learning, (200, 100), seed=0)
        return auc(later["positive"].to_numpy(), logits(later)).value or 0.0

    assert rank(backbone) > rank(film_backbones.CONTRAST) + 0.08
