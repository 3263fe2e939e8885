"""A simulated learning platform, drawn week by week from one seed.

Each week has its own random stream, seeded with (seed, week). Week 3 thus has the same rows in a simulation
of six weeks or sixty, and a lake can be extended without changes to existing weeks.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slc_ops.base.digests import digest_json
from slc_ops.base.errors import SettingsError
from slc_ops.base.lineage import Data
from slc_ops.base.window import WEEK, Cadence, Window, parse_timestamp
from slc_ops.intake.sources import Source
from slc_ops.settings.sources import SimulatorSource

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True)
class Platform:
    """The true model of the platform, and the errors of its frozen backbone.

    The label of user u on item i in week w is Bernoulli with logit

        ηᵤᵢ(w) = θᵤ − dᵢ + bᵢ + γᵢ · (w − first week of i)

    with ability θ ~ N(0, 1), difficulty d ~ N(0, 1), the item bias b ~ N(0, bias_sd²) and, for a share of
    the items, a drift γ ~ N(0, drift_sd²) per week. The backbone uses θ and d but neither b nor γ, and it
    has a wrong scale and shift:

        logit = scale · (θᵤ − dᵢ) + shift + N(0, noise_sd²)
    """

    users: int = 2000
    items: int = 400
    rows_per_week: int = 12_000
    new_items: int = 10
    seed: int = 7
    bias_sd: float = 0.8
    drift_share: float = 0.15
    drift_sd: float = 0.1
    scale: float = 1.4
    shift: float = 0.5
    noise_sd: float = 0.3
    skills: int = 20
    backbone_version: str = "backbone-1"

    def __post_init__(self) -> None:
        for name in ("users", "items", "rows_per_week", "skills"):
            if getattr(self, name) < 1:
                raise SettingsError(f"the simulator needs {name} of at least 1, not {getattr(self, name)}")
        for name in ("new_items", "seed", "bias_sd", "drift_sd", "noise_sd"):
            if getattr(self, name) < 0:
                raise SettingsError(
                    f"the simulator's {name} must not be negative, it is {getattr(self, name)}"
                )
        if not 0 <= self.drift_share <= 1:
            raise SettingsError(f"the simulator's drift_share must lie in [0, 1], it is {self.drift_share}")


class Catalogue(NamedTuple):
    """The items up to some week, one entry per item."""

    first_week: np.ndarray
    difficulty: np.ndarray
    bias: np.ndarray
    drift_per_week: np.ndarray
    popularity: np.ndarray
    skill: np.ndarray


def truth(items: Catalogue) -> pa.Table:
    """Return the true parameters per item, for comparison with estimates."""
    columns = items._asdict()
    skill = numbered("skill-", columns.pop("skill"), 3)
    return pa.table({"item_id": numbered("item-", np.arange(len(skill)), 6), "group_id": skill, **columns})


def catalogue(platform: Platform, week: int) -> Catalogue:
    """Return all items of ``week`` (counted from 0): the initial ones and each week's new ones."""
    parts = []
    for k in range(week + 1):
        rng = np.random.default_rng([platform.seed, 1, k])
        n = platform.items if k == 0 else platform.new_items
        drifts = rng.random(n) < platform.drift_share
        parts.append(
            (
                np.full(n, k),
                rng.normal(size=n),
                rng.normal(scale=platform.bias_sd, size=n),
                np.where(drifts, rng.normal(scale=platform.drift_sd, size=n), 0.0),
                rng.lognormal(sigma=1.5, size=n),  # a few items have most of the traffic
                rng.integers(platform.skills, size=n),
            )
        )
    return Catalogue(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def week_of_rows(platform: Platform, week: int, start: datetime) -> pa.Table:
    """Return the log of one week in time order."""
    items = catalogue(platform, week)
    people = np.random.default_rng([platform.seed, 0])
    ability = people.normal(size=platform.users)
    activity = people.lognormal(sigma=1.0, size=platform.users)

    rng = np.random.default_rng([platform.seed, 2, week])
    n = platform.rows_per_week
    user = weighted_draw(rng, activity, n)
    item = weighted_draw(rng, items.popularity, n)
    known = ability[user] - items.difficulty[item]
    true_logit = known + items.bias[item] + items.drift_per_week[item] * (week - items.first_week[item])
    label = (rng.random(n) < 1 / (1 + np.exp(-true_logit))).astype(np.int8)
    logit = platform.scale * known + platform.shift + rng.normal(scale=platform.noise_sd, size=n)
    time = np.sort(rng.integers(WEEK // MICROSECOND, size=n)) + (start - EPOCH) // MICROSECOND
    return pa.table(
        {
            "event_id": numbered(f"w{week:04d}-", np.arange(n), 8),
            "event_time": pa.array(time, pa.timestamp("us", "UTC")),
            "user_id": numbered("user-", user, 6),
            "item_id": numbered("item-", item, 6),
            "label": pa.array(label),
            "logit": pa.array(logit),
            "group_id": numbered("skill-", items.skill[item], 3),
            "backbone_version": pa.repeat(platform.backbone_version, n),
        }
    )


def monday(start: str) -> datetime:
    """Parse the first window's start; it must be a Monday at midnight UTC."""
    timestamp = parse_timestamp(start)
    if Cadence().containing(timestamp).start != timestamp:
        raise SettingsError(
            f"simulate starts on a Monday at 00:00 UTC, {start!r} is a {timestamp:%A} at {timestamp:%H:%M}"
        )
    return timestamp


def weighted_draw(rng: np.random.Generator, weight: np.ndarray, n: int) -> np.ndarray:
    """Draw ``n`` indices with probabilities proportional to ``weight``, by inversion of the distribution."""
    edges = np.cumsum(weight)
    drawn = np.searchsorted(edges, rng.random(n) * edges[-1], side="right")
    return np.asarray(np.minimum(drawn, len(weight) - 1))  # rounding can give the last edge


def numbered(prefix: str, number: np.ndarray, width: int) -> pa.Array:
    """Return names such as ``item-000042``.

    >>> numbered("item-", np.array([42]), 6).to_pylist()
    ['item-000042']
    """
    digits = pc.utf8_lpad(pc.cast(pa.array(number), pa.string()), width=width, padding="0")
    return pc.binary_join_element_wise(prefix, digits, "")


class Simulation(Source):
    """Weeks drawn on demand; the same settings always give the same rows."""

    def __init__(self, source: SimulatorSource, home: Path, window: Window) -> None:
        self.source, self.window = source, window
        self.start = monday(source.start)
        try:
            self.platform = Platform(**source.platform)
        except TypeError as error:
            raise SettingsError(f"the simulator's platform: {error}") from None

    def datasets(self) -> list[Data]:
        """Return the data set names for lineage."""
        return [Data("slc_ops", self.source.kind)]

    def describe(self) -> dict[str, Any]:
        """Return the settings of the simulation."""
        return {"kind": "simulator", "start": self.source.start, "platform": asdict(self.platform)}

    def fingerprint(self) -> str | None:
        """Return the digest of the settings, which determine the content."""
        return digest_json([self.source.start, asdict(self.platform)])

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the weeks that overlap the window, from the platform's start on."""
        first = max(0, (self.window.start - self.start) // WEEK)
        last = (self.window.end - self.start - MICROSECOND) // WEEK
        for week in range(first, last + 1):
            rows = week_of_rows(self.platform, week, self.start + week * WEEK)
            yield from rows.to_batches(max_chunksize=1 << 16)
