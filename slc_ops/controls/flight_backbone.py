"""The frozen models of the flight control: scikit-learn's ``SGDClassifier`` on streamed flights.

``bbA`` uses carrier, hour, weekday and distance, not the route; ``bbB`` also has a parameter for every route.
Both average their weights over slowly decreasing step sizes. (With scikit-learn's default steps the logits
have a standard deviation of 4 to 6, which hides the effect of ``slc``; see decision 0042.)
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from slc_ops.base.errors import InputError
from slc_ops.base.window import Window
from slc_ops.controls.flights import Flights

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

BACKBONES = ("bbA", "bbB")
MIN_FLIGHTS_A_YEAR = 50
ENOUGH_ROWS = 500_000  # rows for SGD; fewer are repeated


@dataclass(frozen=True)
class Known:
    """The categories of the training period, and the routes with enough flights for evaluation."""

    carriers: pa.Array
    routes: pa.Array
    distance: tuple[float, float]
    rows: int


def known(flights: Flights, period: Window) -> Known:
    """Count carriers and routes; keep routes with at least 50 flights per year."""
    counts: dict[str, Counter[str]] = {"carrier": Counter(), "route": Counter()}
    logs: list[tuple[int, float, float]] = []
    for batch in flights.batches(period):
        for name, found in counts.items():
            for entry in pc.value_counts(batch.column(name)).to_pylist():
                found[entry["values"]] += entry["counts"]
        log = np.log(np.maximum(batch.column("distance").to_numpy(), 1.0), dtype=np.float64)
        logs.append((len(log), float(log.sum()), float(np.square(log).sum())))
    if not logs:
        raise InputError(f"{flights.source} has no flights in the training period {period}")
    years = (period.end - period.start).days / 365.25
    routes = sorted(route for route, n in counts["route"].items() if n >= MIN_FLIGHTS_A_YEAR * years)
    rows, total, square = np.sum(logs, axis=0)
    spread = float(np.sqrt(max(square / rows - (total / rows) ** 2, 1e-12)))
    return Known(
        pa.array(sorted(counts["carrier"])), pa.array(routes), (float(total / rows), spread), int(rows)
    )


def features(batch: pa.RecordBatch, known: Known, *, routes: bool) -> "csr_matrix":
    """Return one-hot carrier, hour and weekday, and standardised log distance; ``routes`` adds the route."""
    from scipy.sparse import csr_matrix

    departure = batch.column("departure")
    blocks = [
        (_code(batch.column("carrier"), known.carriers), len(known.carriers) + 1),
        (pc.hour(departure).to_numpy(), 24),
        (pc.day_of_week(departure).to_numpy(), 7),
    ]
    if routes:
        blocks.append((_code(batch.column("route"), known.routes), len(known.routes) + 1))
    starts = np.cumsum([0, *(width for _, width in blocks)])
    columns = [code + start for (code, _), start in zip(blocks, starts[:-1], strict=True)]
    mean, spread = known.distance
    distance = (
        np.log(np.maximum(batch.column("distance").to_numpy(), 1.0), dtype=np.float64) - mean
    ) / spread
    indices = np.stack([*columns, np.full(batch.num_rows, starts[-1])], axis=1)
    values = np.ones(indices.shape)
    values[:, -1] = distance
    pointers = np.arange(0, indices.size + 1, indices.shape[1])
    return csr_matrix(
        (values.ravel(), indices.ravel(), pointers), shape=(batch.num_rows, int(starts[-1]) + 1)
    )


def train(flights: Flights, known: Known, period: Window, backbone: str, seed: int) -> Any:
    """Return a fitted classifier; each pass over the period shuffles within batches of 131,072 flights."""
    from sklearn.linear_model import SGDClassifier

    model = SGDClassifier(
        loss="log_loss",
        alpha=1e-6,
        learning_rate="invscaling",
        eta0=0.1,
        power_t=0.25,
        average=True,
        random_state=seed,
    )
    order = np.random.default_rng(seed)
    for _ in range(max(1, -(-ENOUGH_ROWS // known.rows))):
        for batch in flights.batches(period):
            shuffled = batch.take(pa.array(order.permutation(batch.num_rows)))
            late = shuffled.column("late").to_numpy()
            model.partial_fit(features(shuffled, known, routes=backbone == "bbB"), late, classes=[0, 1])
    return model


def scored(
    flights: Flights, known: Known, period: Window, model: Any, backbone: str, seed: int
) -> Iterator[pa.RecordBatch]:
    """Yield the log of a period: routes with enough flights, with the frozen model's logits."""
    number = 0
    for batch in flights.batches(period):
        rows = batch.filter(pc.is_in(batch.column("route"), value_set=known.routes))
        logit = model.decision_function(features(rows, known, routes=backbone == "bbB"))
        yield pa.record_batch(
            {
                "event_id": pa.array([f"{period.key}-{number + k}" for k in range(rows.num_rows)]),
                "event_time": rows.column("departure").cast(pa.timestamp("us", "UTC")),
                "user_id": rows.column("aircraft"),
                "item_id": rows.column("route"),
                "label": rows.column("late"),
                "logit": pa.array(logit, pa.float32()),
                "group_id": rows.column("carrier"),
                "backbone_version": pa.array([f"{backbone}-{seed}"] * rows.num_rows),
            }
        )
        number += rows.num_rows


def _code(column: pa.Array, categories: pa.Array) -> NDArray[np.int64]:
    """Return the position of each value among the categories; unknown values get their number."""
    found = pc.fill_null(pc.index_in(column, value_set=categories), len(categories))
    return np.asarray(found).astype(np.int64)
