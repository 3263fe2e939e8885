"""Kinds of damage to a week of logs. Each function changes the newest week of a bench."""

from collections.abc import Callable, Collection
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slc_ops.base.window import Window
from tests.quality.lake_bench import NEWEST, Bench, Damage

FEW, MANY = 5, 500  # of 2000 rows: under and over the budget of 0.5 %


def replacing(column: str, values: Callable[[pa.Table], pa.Array]) -> Damage:
    """The column with other values."""

    def damage(bench: Bench) -> None:
        rows = bench.read()
        bench.write(rows.set_column(rows.schema.get_field_index(column), column, values(rows)))

    return damage


def first_rows(column: str, count: int, value: Any, kind: pa.DataType | None = None) -> Damage:
    """The first ``count`` values of a column replaced by one value."""

    def values(rows: pa.Table) -> pa.Array:
        whole = rows.column(column).to_pylist()
        return pa.array([value] * count + whole[count:], kind or rows.schema.field(column).type)

    return replacing(column, values)


def turned_labels(share: float) -> Damage:
    """Labels flipped at random."""

    def values(rows: pa.Table) -> pa.Array:
        label = rows.column("label").to_numpy()
        turned = np.random.default_rng(0).random(len(label)) < share
        return pa.array(np.where(turned, 1 - label, label))

    return replacing("label", values)


def casting(column: str, kind: pa.DataType) -> Damage:
    """The column in another type."""
    return replacing(column, lambda rows: pc.cast(rows.column(column), kind))


def renaming(column: str, name: str) -> Damage:
    """The column under another name."""

    def damage(bench: Bench) -> None:
        rows = bench.read()
        bench.write(rows.rename_columns([name if found == column else found for found in rows.schema.names]))

    return damage


def probabilities(rows: pa.Table) -> pa.Array:
    """The probabilities of the logits."""
    return pa.array(1 / (1 + np.exp(-rows.column("logit").to_numpy())))


def halves_of_one_type_each(column: str, kind: pa.DataType) -> Damage:
    """Half of the week in a second file, where the column has another type."""

    def damage(bench: Bench) -> None:
        rows = bench.read()
        half = rows.num_rows // 2
        bench.write(rows.slice(0, half))
        second = rows.slice(half)
        values = (
            pc.cast(second.column(column), kind) if kind != pa.int64() else pa.array(range(second.num_rows))
        )
        bench.write(second.set_column(rows.schema.get_field_index(column), column, values), "part-1.parquet")

    return damage


def duplicated_ids(count: int) -> Damage:
    """The last rows have the ids of the first ones."""

    def values(rows: pa.Table) -> pa.Array:
        ids = rows.column("event_id").to_pylist()
        return pa.array(ids[:-count] + ids[:count])

    return replacing("event_id", values)


def multiplied(times: int) -> Damage:
    """The same rows several times, with new ids and times."""

    def damage(bench: Bench) -> None:
        rows = bench.read()
        copies = []
        for k in range(times):
            ids = pc.binary_join_element_wise(rows.column("event_id"), f"copy{k}", "-")
            when = pc.cast(pc.cast(rows.column("event_time"), pa.int64()), pa.timestamp("us", "UTC"))
            copies.append(rows.set_column(0, "event_id", ids).set_column(1, "event_time", when))
            rows = rows.set_column(2, "user_id", pc.binary_join_element_wise(rows.column("user_id"), "x", ""))
        bench.write(pa.concat_tables(copies))

    return damage


def only_first_days(days: int) -> Damage:
    """The log ends in the middle of the week."""

    def damage(bench: Bench) -> None:
        rows = bench.read()
        end = pa.scalar(NEWEST.start + timedelta(days=days), pa.timestamp("us", "UTC"))
        bench.write(rows.filter(pc.less(rows.column("event_time"), end)))

    return damage


def thinned(window: Window, days: Collection[int], lost: float) -> Damage:
    """A share of the rows of some days (0 is Monday) is missing, evenly over the day."""

    def damage(bench: Bench) -> None:
        rows = bench.read(window)
        hours = pc.divide(pc.cast(pc.subtract(rows["event_time"], window.start), pa.int64()), 3_600_000_000)
        kept = np.random.default_rng(5).random(rows.num_rows) >= lost
        concerned = np.isin(hours.to_numpy() // 24, list(days))
        bench.write(rows.filter(pa.array(kept | ~concerned)), window=window)

    return damage


def moved(count: int, days: int) -> Damage:
    """The first rows have times of another week, in a partition that selects them."""

    def damage(bench: Bench) -> None:
        bench.configure(source={"kind": "lake", "path": "lake/demo", "partition": {"key": "week", "days": 7}})

        def values(rows: pa.Table) -> pa.Array:
            times = rows.column("event_time").to_pylist()
            shifted = [timestamp + timedelta(days=days) for timestamp in times[:count]]
            return pa.array(shifted + times[count:], pa.timestamp("us", "UTC"))

        replacing("event_time", values)(bench)

    return damage


def second_version(share: float, *, allowed: bool = False) -> Damage:
    """Some rows come from another backbone."""

    def damage(bench: Bench) -> None:
        if allowed:
            bench.configure(quality={"allow_mixed_backbones": True})

        def values(rows: pa.Table) -> pa.Array:
            new = int(rows.num_rows * share)
            return pa.array(["backbone-2"] * new + ["backbone-1"] * (rows.num_rows - new))

        replacing("backbone_version", values)(bench)

    return damage


def repeated_rows(count: int) -> Damage:
    """Interactions repeated under a new id, as some platforms do per skill."""

    def damage(bench: Bench) -> None:
        rows = bench.read()
        again = rows.slice(0, count)
        ids = pc.binary_join_element_wise(again.column("event_id"), "again", "-")
        bench.write(pa.concat_tables([rows, again.set_column(0, "event_id", ids)]))

    return damage


def both(*damages: Damage) -> Damage:
    """One after the other."""

    def damage(bench: Bench) -> None:
        for each in damages:
            each(bench)

    return damage


def truncated(bench: Bench) -> None:
    """A truncated file."""
    path = bench.week / "part-0.parquet"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def no_parquet(bench: Bench) -> None:
    """A CSV file with the wrong extension."""
    (bench.week / "part-0.parquet").write_text("event_id,label\n1,0\n")


def removed(bench: Bench) -> None:
    """No file arrived."""
    (bench.week / "part-0.parquet").unlink()
    bench.week.rmdir()


def negative_weights(bench: Bench) -> None:
    """A few weights below zero."""
    rows = bench.read()
    bench.write(rows.append_column("weight", pa.array([-1.0] * FEW + [1.0] * (rows.num_rows - FEW))))


def weights(first: list[float]) -> Damage:
    """A column of weights 1 with other values in the first rows."""

    def damage(bench: Bench) -> None:
        rows = bench.read()
        bench.write(rows.append_column("weight", pa.array(first + [1.0] * (rows.num_rows - len(first)))))

    return damage


def counted_twice(bench: Bench) -> None:
    """Successes and failures of one (user, item, time) as two weighted rows."""
    rows = bench.read()
    ids = pc.binary_join_element_wise(rows.column("event_id"), "other", "-")
    other = rows.set_column(0, "event_id", ids)
    place = rows.schema.get_field_index("label")
    turned = pa.array(1 - rows.column("label").to_numpy(), rows.schema.field("label").type)
    both = pa.concat_tables([rows, other.set_column(place, "label", turned)]).slice(0, rows.num_rows + 100)
    bench.write(both.append_column("weight", pa.array(np.ones(both.num_rows))))


def constant_at(logits: tuple[float, float]) -> Damage:
    """A backbone with little variation: all logits lie between these, and labels match."""

    def damage(bench: Bench) -> None:
        rng = np.random.default_rng(0)
        for window in [*NEWEST.before(3), NEWEST]:
            rows = bench.read(window)
            found = rng.uniform(*logits, rows.num_rows)
            label = pa.array((rng.random(rows.num_rows) < 1 / (1 + np.exp(-found))).astype(np.int8))
            rows = rows.set_column(rows.schema.get_field_index("logit"), "logit", pa.array(found))
            rows = rows.set_column(rows.schema.get_field_index("label"), "label", label)
            bench.write(rows, window=window)

    return damage
