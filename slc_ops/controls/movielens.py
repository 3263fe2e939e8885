"""``movielens``: the negative control, and its contrast.

Each user's history is split in time: the first 80 % train the backbone, the next tenth calibrates, the last
tests. ``mf`` and ``ncf`` have parameters for every film, so correction must gain less than half a point of
AUC. On the same rows a backbone with user parameters only must be corrected, and the decision rule must find
an item method ahead of Platt.

Films with fewer than 20 training ratings are omitted, because a backbone cannot model them. Event times are
each user's progress, mapped to two weeks, so that the split per user is a split in time.
"""

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

from slc_ops.base.errors import InputError
from slc_ops.base.window import Window
from slc_ops.controls.arms import Arm, Request, declare, write_lake
from slc_ops.controls.datasets import movielens_100k
from slc_ops.controls.film_backbones import BACKBONES, CONTRAST, Logits, train
from slc_ops.controls.ratings import read_ratings
from slc_ops.settings.environment import Installation

NAME = "movielens"
TEST = Window.parse("2000-01-10/2000-01-17")
CUTS = (0.8, 0.9)
MIN_RATINGS = 20


def prepare(installation: Installation, request: Request, tell: Callable[[str], None]) -> list[Arm]:
    """Read ratings (None: MovieLens-100k from the package index), train, write a lake for every arm."""
    arms = request.arms(dict.fromkeys(BACKBONES, "negative"), TEST)
    arms.append(Arm(CONTRAST, CONTRAST, 0, "contrast", TEST))
    tell("read the ratings")
    ratings, shape = _coded(read_ratings(request.data or movielens_100k(installation.home / "data")))
    declare(installation, arms)
    share = ratings.column("share").to_numpy()
    learning = ratings.filter(pa.array(share < CUTS[0]))
    for arm in arms:
        tell(f"{arm.name}: train the backbone")
        logits = train(arm.backbone, learning, shape, arm.seed)
        write_lake(installation, arm, _log(ratings.filter(pa.array(share >= CUTS[0])), logits, arm))
    return arms


def _coded(ratings: pa.Table) -> tuple[pa.Table, tuple[int, int]]:
    """Return films with enough training ratings; users and films are numbered from 0."""
    learning = ratings.column("share").to_numpy() < CUTS[0]
    item = ratings.column("item").to_numpy()
    films, count = np.unique(item[learning], return_counts=True)
    kept = ratings.filter(pa.array(np.isin(item, films[count >= MIN_RATINGS])))
    if kept.num_rows == 0:
        raise InputError(
            f"no film has {MIN_RATINGS} training ratings; these are too few ratings for a control"
        )
    numbered, shape = kept, []
    for place, name in enumerate(("user", "item")):
        distinct, code = np.unique(kept.column(name).to_numpy(), return_inverse=True)
        numbered = numbered.set_column(place, name, pa.array(code))
        numbered = numbered.append_column(f"{name}_id", pa.array(distinct[code]))
        shape.append(len(distinct))
    return numbered, (shape[0], shape[1])


def _log(ratings: pa.Table, logits: Logits, arm: Arm) -> Iterator[pa.RecordBatch]:
    share = ratings.column("share").to_numpy()
    start = np.datetime64(TEST.before(1)[0].start.replace(tzinfo=None), "us")
    progress = (share - CUTS[0]) / (CUTS[1] - CUTS[0]) * 7 * 86_400e6
    table = pa.table(
        {
            "event_id": [f"{arm.name}-{k}" for k in range(ratings.num_rows)],
            "event_time": pa.array(start + progress.astype("timedelta64[us]")).cast(
                pa.timestamp("us", "UTC")
            ),
            "user_id": ratings.column("user_id"),
            "item_id": ratings.column("item_id"),
            "label": ratings.column("positive"),
            # float32 as in a serving system; users that differ only by rounding are tied.
            "logit": logits(ratings).astype(np.float32),
            "backbone_version": [f"{arm.backbone}-{arm.seed}"] * ratings.num_rows,
        }
    )
    yield from table.to_batches()
