"""Small simulated worlds with a known truth: weeks of rows from users and items, and a frozen backbone."""

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from slc_ops.base.json_form import to_json
from slc_ops.base.methods import ladder
from slc_ops.base.window import WEEK, Cadence, Window
from slc_ops.evidence.backtest import Backtest, assemble, compare_champion
from slc_ops.evidence.detectability import Detectability
from slc_ops.evidence.renewal import Renewal
from slc_ops.evidence.scoring import score_fold
from slc_ops.evidence.slices import Slicing
from slc_ops.evidence.verdict import Verdict, decide_on, give_verdict
from slc_ops.parameters.parameter_set import ParameterSet
from slc_ops.refresh.window_rules import Reach, plan_folds
from slc_ops.rows.engine import LOCAL, Engine
from slc_ops.rows.interactions import InteractionLog
from slc_ops.settings.blocks import Decision

FIRST = Cadence().containing(datetime(2026, 1, 5, tzinfo=UTC))


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def week(number: int) -> Window:
    return Window(FIRST.start + number * WEEK, FIRST.end + number * WEEK)


def rows(
    number: int,
    *,
    seed: int = 0,
    n: int = 3000,
    users: int = 200,
    items: int = 60,
    bias_sd: float = 0.0,
    scale: float = 1.0,
    shift: float = 0.0,
    groups: int = 3,
    backbone: str | None = "backbone-1",
) -> pa.Table:
    """One week. The backbone's logit is ``(truth − item bias − shift) / scale``, with one bias per item."""
    bias = np.random.default_rng([seed, 1]).normal(0, bias_sd, items)
    rng = np.random.default_rng([seed, 2, number])
    user, item = rng.integers(0, users, n), rng.integers(0, items, n)
    logit = rng.normal(0, 1.2, n)
    label = rng.random(n) < sigmoid(scale * logit + shift + bias[item])
    seconds = np.sort(rng.integers(0, int(WEEK.total_seconds() * 1e6), n))
    start = int(week(number).start.timestamp() * 1e6)
    columns = {
        "event_time": pa.array(start + seconds, pa.timestamp("us", "UTC")),
        "user_id": user,
        "item_id": [f"item-{k}" for k in item],
        "label": label.astype(np.int8),
        "logit": logit,
        "group_id": [f"skill-{k % groups}" for k in item],
    }
    if backbone is not None:
        columns["backbone_version"] = [backbone] * n
    return pa.table(columns)


def write_weeks(directory: Path, weeks: int, **world) -> list[tuple[Window, Path]]:
    """Windows 0 … weeks − 1 of a world as files."""
    directory.mkdir(parents=True, exist_ok=True)
    written = []
    for number in range(weeks):
        path = directory / f"{week(number).key}.parquet"
        pq.write_table(rows(number, **world), path)
        written.append((week(number), path))
    return written


def shuffle_labels(path: Path, seed: int = 0) -> None:
    """Shuffle the labels of a window."""
    table = pq.read_table(path)
    labels = np.random.default_rng(seed).permutation(table["label"].to_numpy())
    place = table.schema.get_field_index("label")
    pq.write_table(table.set_column(place, "label", pa.array(labels, pa.int8())), path)


def backtest(
    weeks: Sequence[tuple[Window, Path]],
    *,
    methods: Sequence[str],
    link_windows: int,
    evidence_windows: int,
    offset_windows: int = 0,
    grid: Decision | None = None,
    champion: ParameterSet | None = None,
    rules: Decision | None = None,
    directory: Path | None = None,
    engine: Engine = LOCAL,
) -> Backtest:
    """The evidence from plain files, as the steps ``fit`` and ``backtest`` of a refresh compute it."""
    with TemporaryDirectory() as temporary:
        scores = directory or Path(temporary)
        plan = plan_folds(weeks, Reach(link_windows, offset_windows, evidence_windows))
        for fold in plan.folds:
            score_fold(fold, ladder(methods), scores, rules=grid, engine=engine)
        compared = None if champion is None else compare_champion(plan, champion, scores, engine=engine)
        return assemble(plan, methods, scores, rules or Decision(), compared)


FINE = Renewal(True, False, None, None, "it moved as usual")


def decide(
    result: Backtest, seen: Detectability | None, rules: Decision, renewal: Renewal | None = FINE
) -> Verdict:
    """The verdict on a backtest, as in the step ``decide`` of a refresh."""
    return give_verdict(result, decide_on(result, seen, rules), renewal, seen, rules)


@cache
def evidence_files() -> tuple[dict[str, Any], dict[str, Any]]:
    """``backtest.json`` and ``verdict.json`` of a small world in which ``slc`` takes over.

    Tests that only read these files set the figures they need in a copy; the rest is real.
    """
    with TemporaryDirectory() as directory:
        weeks = write_weeks(Path(directory), 5, n=1500, bias_sd=0.9, seed=3, items=30)
        found = backtest(weeks, methods=["slc"], link_windows=2, offset_windows=2, evidence_windows=3)
    return to_json(found), to_json(decide(found, None, Decision()))


class Part(NamedTuple):
    """A slice of a log: its names, and a mask of its rows."""

    kind: str
    name: str
    label: str
    rows: np.ndarray


def parts_of(slicing: Slicing, log: InteractionLog) -> list[Part]:
    """The slices of a log in memory."""
    if not slicing.parts:
        return []
    number = slicing.number_of(log.rows(0, log.n_rows, slicing.columns))
    return [Part(*names, number == k) for k, names in enumerate(slicing.parts)]
