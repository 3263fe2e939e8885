"""The decision in simulated worlds, window by window, and the coverage of the next window.

    python benchmarks/decision_worlds.py [--worlds 100] [--windows 26] [--only null_jump,bias] [--keep DIR]

A world has items with lasting offsets or none, users, and a level that may jump from window to window, which
all rows of a window share. The frozen model is exact except for the offsets and the jumps (``shift`` is its
constant error). Every window is scored by Platt and ``slc_eb`` fitted on the windows before it, as a refresh
does, and the method is decided after it; the next window is served by that decision.

The table has, per kind of world: the share of worlds with an item method as champion at the end, by the
sixth window, and ever; with at most one change of method (once from "none" on, once after the first
champion); the coverage of the next window's difference by its 95 % interval, slc_eb and frozen against Platt;
served minus Platt refitted every window and minus the frozen model; and the regret against the
best of frozen, ``platt_eb`` and ``slc_eb`` in hindsight, mean over worlds. The bars: worlds without
lasting offsets have no item champion at the end in 95 of 100; worlds with them have one by window 6 in 95 of
100; a level that jumps changes the method at most once in 90 of 100, where the frozen model is right at most
once after the first champion; coverage is between 0.90 and 0.98 where windows share a shock; the regret is at
most 0.0005, where the frozen model is right at most 0.001.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from slc_ops.base.errors import FitError
from slc_ops.base.methods import METHODS as TABLE
from slc_ops.base.window import WEEK, Window
from slc_ops.evidence.decision import decide_method
from slc_ops.evidence.series import Entry, entry, statistic
from slc_ops.evidence.uncertainty import Clusters, UserSums, averaged
from slc_ops.methods import FitOptions, fit_prepared
from slc_ops.methods.fitting.calibration import Calibration
from slc_ops.refresh.window_rules import Reach, memory_up_to
from slc_ops.rows.interactions import InteractionLog
from slc_ops.settings.blocks import Decision
from slc_ops.settings.deployments import Deployment
from slc_ops.settings.sources import LakeSource

METHODS = ("base", "platt", "platt_eb", "slc_eb")
LISTED: tuple[str, ...] = Deployment.model_fields["methods"].default
LONG = ("temperature", "isotonic", "histogram", "rescal", "rescal_iso", "ridge", "slc", "slc_iso")
FIRST = Window.parse("2026-01-05/2026-01-12")
REACH = Reach.of(dict(Deployment(source=LakeSource(path="-"))))
LAST = REACH.evidence
HINDSIGHT = ("base", "platt_eb", "slc_eb")
OPTIONS = FitOptions(threads=1)


@dataclass(frozen=True)
class World:
    """``bias``: sd of lasting item offsets; ``weekly``: of offsets drawn per window; ``jump``: of the level.

    ``turn``: what becomes of the lasting offsets in the middle; ``new``: the share of items that every
    window replaces; ``shock``: sd of what tenths of the items share for a window; ``user``: sd of users'
    effects, whose activity is even or ``heavy``, on all items or on a few that change (``moves``); ``share``:
    rows that share user, item and label; ``first``: the first window's part of the rows; ``gap``: windows
    without rows; ``listed``: further methods.
    """

    rows: int = 2000
    users: int = 250
    items: int = 80
    bias: float = 0.0
    weekly: float = 0.0
    jump: float = 0.0
    shift: float = 0.3
    turn: str = ""
    new: float = 0.0
    shock: float = 0.0
    user: float = 0.0
    heavy: bool = False
    moves: bool = False
    share: int = 1
    first: float = 1.0
    gap: tuple[int, int] = (0, 0)
    listed: tuple[str, ...] = ()


WORLDS = {
    "null": World(),
    "null_jump": World(jump=0.5),
    "null_small": World(rows=300, users=60, jump=0.3),
    "null_many": World(items=800, jump=0.3),
    "null_weekly": World(weekly=0.5),
    "null_tiny": World(rows=200, users=60, shift=0.0),
    "null_list": World(jump=0.5, listed=LONG),
    "calib": World(shift=0.0),
    "calib_jump": World(jump=0.5, shift=0.0),
    "big_jump_calib": World(jump=1.0, shift=0.0),
    "calib_clusters": World(rows=5000, share=170, items=30, shift=0.0),
    "heavy_users": World(user=0.5, heavy=True),
    "heavy_users_move": World(user=0.5, heavy=True, moves=True),
    "shared_shocks": World(shock=0.5),
    "bias": World(bias=0.5),
    "bias_jump": World(bias=0.5, jump=0.5),
    "bias_jump_calib": World(bias=0.5, jump=0.5, shift=0.0),
    "weak_bias": World(bias=0.25, jump=0.3),
    "small_bias": World(bias=0.12, jump=0.1),
    "bias_tiny": World(rows=200, users=60, bias=0.5),
    "bias_vanishes": World(bias=0.5, turn="vanishes"),
    "bias_flips": World(bias=0.5, turn="flips"),
    "bias_seasonal": World(bias=0.5, turn="seasonal"),
    "bias_grows": World(bias=0.5, new=0.1),
    "bias_sunday": World(bias=0.5, jump=0.3, first=1 / 7),
    "bias_winter": World(bias=0.5, jump=0.3, gap=(10, 18)),
}
NULL = tuple(name for name in WORLDS if "bias" not in name)
BIASED = ("bias", "bias_jump", "bias_jump_calib")
"""The others are shown; of them only the regret has a bar."""


def tables(world: World, windows: int, seed: int) -> list[pa.Table | None]:
    """The rows of every window, None for a window without rows."""
    rng = np.random.default_rng(seed)
    lasting = rng.normal(0, world.bias, world.items)
    effect = rng.normal(0, world.user, world.users) if world.user else np.zeros(world.users)
    activity = 1 / np.arange(1, world.users + 1) if world.heavy else np.ones(world.users)
    activity /= activity.sum()
    names = np.arange(world.items)
    found: list[pa.Table | None] = []
    for number in range(windows):
        rows = int(world.rows * (world.first if number == 0 else 1))
        blocks = -(-rows // world.share)
        user = rng.choice(world.users, blocks, p=activity)
        item = rng.integers(0, world.items, blocks)
        if world.moves:  # a user has a few items, others in every window
            item = (user * 7 + number * 13 + rng.integers(0, 5, blocks)) % world.items
        if world.new and number:
            fresh = rng.random(world.items) < world.new
            lasting = np.where(fresh, rng.normal(0, world.bias, world.items), lasting)
            names = np.where(fresh, names.max() + 1 + np.arange(world.items), names)
        season = np.cos(2 * np.pi * number / 26)
        late = number >= windows // 2
        now = {"vanishes": 1.0 - late, "flips": 1.0 - 2 * late, "seasonal": season}.get(world.turn, 1.0)
        off = now * lasting + (rng.normal(0, world.weekly, world.items) if world.weekly else 0.0)
        if world.shock:
            off = off + rng.normal(0, world.shock, 10)[np.arange(world.items) % 10]
        level = world.shift + (rng.normal(0, world.jump) if world.jump else 0.0)
        if world.share > 1:
            user = number * blocks + np.arange(blocks)
        block = np.repeat(np.arange(blocks), world.share)[:rows]
        user, item = user[block], item[block]
        truth = (rng.normal(0, 1, blocks) - 0.5)[block]
        chance = 1 / (1 + np.exp(-(truth + off[item] + effect[user % world.users] + level)))
        label = (rng.random(blocks)[block] < chance).astype(np.int8)
        kept = not world.gap[0] <= number < world.gap[1]
        found.append(
            pa.table(
                {
                    "item_id": names[item],
                    "user_id": user,
                    "event_time": number * world.rows + np.arange(rows, dtype=np.float64),
                    "label": label,
                    "logit": truth,
                }
            )
            if kept
            else None
        )
    return found


def series(parts: Sequence[pa.Table | None], listed: Sequence[str] = ()) -> list[Entry]:
    """The entries of all windows but the first, and before them the hold-out inside the first."""
    first = parts[0]
    assert first is not None
    cut = int(first.num_rows * 0.7)
    earlier = [first.slice(0, cut)]
    span = max(part.num_rows for part in parts if part is not None)
    starts = tuple(float(number * span) for number in range(len(parts)))
    found = [_entry(FIRST, earlier, earlier, first.slice(cut), starts[:1], listed, hold_out=True)]
    weeks = [Window(FIRST.start + k * WEEK, FIRST.end + k * WEEK) for k in range(len(parts))]
    rows = {week: part for week, part in zip(weeks, parts, strict=True) if part is not None}
    for week, part in rows.items():
        memory = memory_up_to(*week.before(1), rows, REACH)
        link, offsets = ([rows[each] for each in some] for some in (memory.link, memory.offsets))
        if link:
            found.append(_entry(week, link, offsets, part, starts[: weeks.index(week)], listed))
    return found


def _entry(
    window: Window,
    link: list[pa.Table],
    offsets: list[pa.Table],
    test: pa.Table,
    starts: tuple[float, ...],
    listed: Sequence[str] = (),
    hold_out: bool = False,
) -> Entry:
    def prepared(tables: list[pa.Table]) -> Calibration:
        return Calibration(InteractionLog.from_table(pa.concat_tables(tables)), None, OPTIONS, None, starts)

    short = long = prepared(offsets)
    if len(offsets) > len(link):
        short = prepared(link)
    log = InteractionLog.from_table(test)
    label, users = test["label"].to_numpy(), Clusters.of(test["user_id"].to_numpy())
    sums = {}
    for method in (*METHODS, *listed):
        try:
            fitted = fit_prepared(method, short, None if short is long else long)
        except FitError:  # labels of one class, in a tiny window
            continue
        sums[method] = loss_sums(label, fitted.apply(log, threads=1), users)
    return entry(window, sums, hold_out=hold_out)


def loss_sums(label: np.ndarray, probability: np.ndarray, users: Clusters) -> UserSums:
    """The sums by user that the series needs, without ranks."""

    def by_user(values: np.ndarray) -> np.ndarray:
        return np.bincount(users.of_row, values, users.count)

    return UserSums(
        positive=by_user((label != 0).astype(float)),
        negative=by_user((label == 0).astype(float)),
        placement=np.zeros(users.count),
        means={"nll": by_user(averaged()["nll"](label.astype(float), probability))},
        rows=label.size,
    )


def served(entries: list[Entry], rules: Decision | None = None, listed: Sequence[str] = LISTED) -> list[str]:
    """The method after each window, which serves the next one."""
    current, since, found = "base", None, []
    for number in range(1, len(entries) + 1):
        method = decide_method(
            entries[:number], current, listed, rules or Decision(), evidence_windows=LAST, since=since
        ).method
        current, since = method, since if method == current else entries[number - 1].window
        found.append(current)
    return found


def regret(entries: list[Entry], path: list[str]) -> float:
    """NLL of the served windows after the first minus that of the best method in hindsight."""

    def loss(methods: Sequence[str]) -> float:
        pairs = [scored.difference(each, "base") for each, scored in zip(methods, entries[1:], strict=True)]
        return float(np.mean([0.0 if pair is None else pair.d for pair in pairs]))

    later = len(entries) - 1
    return loss(path[:later]) - min(loss([method] * later) for method in HINDSIGHT)


def summary(all_of: list[list[Entry]], listed: Sequence[str] = ()) -> dict[str, float]:
    """The results of the worlds of one kind, which compare the default list and the ``listed`` methods."""
    paths = [served(entries, listed=(*LISTED, *listed)) for entries in all_of]
    item = [[TABLE[method].per_item for method in path] for path in paths]
    changes = [sum(a != b for a, b in zip(["base", *path], path, strict=False)) for path in paths]
    after = [
        max(0, each - (path[-1] != "base" or each > 0)) for each, path in zip(changes, paths, strict=True)
    ]
    gains: dict[str, list[float]] = {"platt": [], "base": []}
    for entries, path in zip(all_of, paths, strict=True):
        for method, scored in zip(path, entries[1:], strict=False):
            for reference, found in gains.items():
                pair = scored.difference(method, reference)
                found.append(0.0 if pair is None else pair.d)
    return {
        "item_end": float(np.mean([each[-1] for each in item])),
        "item_by_6": float(np.mean([any(each[:6]) for each in item])),
        "item_ever": float(np.mean([any(each) for each in item])),
        "at_most_1": float(np.mean(np.array(changes) <= 1)),
        "after_first": float(np.mean(np.array(after) <= 1)),
        "cover_eb": coverage(all_of, "slc_eb"),
        "cover_base": coverage(all_of, "base"),
        "vs_platt": float(np.mean(gains["platt"])),
        "vs_frozen": float(np.mean(gains["base"])),
        "regret": float(np.mean([regret(*each) for each in zip(all_of, paths, strict=True)])),
    }


def coverage(all_of: list[list[Entry]], method: str) -> float:
    """How often the interval of the next window contained its difference."""
    held = []
    for entries in all_of:
        for number in range(4, len(entries)):
            found = statistic(entries[:number], method, "platt", last=LAST)
            pair = entries[number].difference(method, "platt")
            if found is not None and found.next_low is not None and found.next_high is not None and pair:
                held.append(found.next_low <= pair.d <= found.next_high)
    return float(np.mean(held))


def simulate(kind: str, windows: int, seed: int) -> list[dict[str, Any]]:
    """One world's series, as JSON."""
    world = WORLDS[kind]
    return [each.as_dict() for each in series(tables(world, windows, seed), world.listed)]


def failures(kind: str, found: dict[str, float]) -> Iterator[str]:
    """The bars that a kind of world misses."""
    if kind in NULL:
        if found["item_end"] > 0.05:
            yield f"{kind}: an item champion in {found['item_end']:.0%} of worlds without item bias"
        # Where the frozen model is right, its return after a first champion is no failure.
        rare = found["after_first" if "calib" in kind else "at_most_1"]
        if rare < 0.9:
            yield f"{kind}: more than one change in {1 - rare:.0%} of worlds"
    if kind in BIASED and found["item_by_6"] < 0.95:
        yield f"{kind}: an item champion by window 6 in {found['item_by_6']:.0%} only"
    if found["regret"] > (bar := 0.001 if "calib" in kind else 0.0005):
        yield f"{kind}: a regret of {found['regret']:.4f}, at most {bar}"
    for name in ("cover_eb", "cover_base") if WORLDS[kind].jump else ():
        if not 0.90 <= found[name] <= 0.98:
            yield f"{kind}: {name} {found[name]:.3f}"


def main() -> int:
    """Simulate, print the table and the missed bars."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--worlds", type=int, default=100)
    parser.add_argument("--windows", type=int, default=26)
    parser.add_argument("--only", default="")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--keep", type=Path, help="keep the series here, and use those that are there")
    asked = parser.parse_args()
    kinds = [kind for kind in WORLDS if not asked.only or kind in asked.only.split(",")]
    missed: list[str] = []
    header = None
    with ProcessPoolExecutor(asked.processes) as pool:
        for kind in kinds:
            path = None if asked.keep is None else asked.keep / f"{kind}-{asked.seed}-{asked.worlds}.json"
            if path is not None and path.exists():
                found = json.loads(path.read_text())
            else:
                seeds = range(asked.seed, asked.seed + asked.worlds)
                found = list(pool.map(partial(simulate, kind, asked.windows), seeds))
                if path is not None:
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_text(json.dumps(found))
            entries = [[Entry.from_dict(each) for each in world] for world in found]
            result = summary(entries, WORLDS[kind].listed)
            if header is None:
                header = [f"{name:>11}" for name in result]
                print(f"{'world':<16}", *header)
            print(f"{kind:<16}", *(f"{value:>11.4f}" for value in result.values()), flush=True)
            missed += failures(kind, result)
    print("\n".join(missed) if missed else "all bars are met")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
