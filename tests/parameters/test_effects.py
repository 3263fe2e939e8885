"""A second effect is handled like the items': storage, golden vectors, applying, serving, explaining."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import slc_ops
from slc_ops.api.explaining import explain
from slc_ops.base.digests import digest_file
from slc_ops.base.errors import InputError, ParameterSetError
from slc_ops.evidence.renewal import lengths
from slc_ops.numerics.curves import Affine, Histogram, Isotonic
from slc_ops.parameters import storage
from slc_ops.parameters.applying import apply_file
from slc_ops.parameters.effects import Effect
from slc_ops.parameters.golden import check_golden, golden_vectors
from slc_ops.parameters.parameter_set import ParameterSet
from slc_ops.rows.interactions import InteractionLog
from slc_ops.serving import Corrector
from slc_ops.serving.frames import correct_frame

ITEMS = pa.table({"id": ["a", "b", "c"], "offset": [0.4, -0.7, 0.1], "slope": [0.2, 0.0, -0.3]})
GROUPS = pa.table(
    {
        "id": [3, 17],
        "offset": [0.25, -0.5],
        "offset_var": [0.04, 0.09],
        "n_obs": [40.0, 9.0],
        "fisher_weight": [10.0, 2.0],
        "shrinkage": [0.5, 0.25],
    }
)
USERS = pa.table({"id": ["u1", "u2"], "offset": [1.0, -1.0]})
MIXED = ParameterSet(
    "slc_mix",
    Affine(1.1, -0.2),
    {"item": Effect(ITEMS, 0.5, 0.1), "group": Effect(GROUPS, 0.3), "user": Effect(USERS)},
    logit_mean=0.3,
    cold=Affine(0.9, -0.1),
)

LAST = 2**63 - 1

ROWS = [
    (item, logit, group, user)
    for item in ("a", "b", "c", "new", None)
    for group in (3, 17, 4, None)
    for user in ("u1", "new", None)
    for logit in (-2.0, 0.0, 5.0)
]


def by_hand(item: str | None, logit: float, group: int | None, user: str | None) -> float:
    """The formula of the format's page, written out again."""
    eta = 1.1 * logit - 0.2
    offset = {"a": 0.4, "b": -0.7, "c": 0.1}
    if item in offset:
        eta += offset[item] + {"a": 0.2, "b": 0.0, "c": -0.3}[item] * (logit - 0.3)
    else:
        eta = 0.9 * logit - 0.1
    eta += {3: 0.25, 17: -0.5}.get(group, 0.0) + {"u1": 1.0, "u2": -1.0}.get(user, 0.0)
    return float(1 / (1 + np.exp(-eta)))


EXPECTED = [by_hand(*row) for row in ROWS]


@pytest.fixture
def written(tmp_path: Path) -> Path:
    MIXED.write(tmp_path / "set")
    return tmp_path / "set"


def columns() -> tuple[list[str | None], list[float], list[int | None], list[str | None]]:
    return tuple(list(each) for each in zip(*ROWS, strict=True))  # type: ignore[return-value]


def test_every_effect_has_its_own_file_and_round_trips(written: Path) -> None:
    names = ["golden.json", "group.parquet", "item.parquet", "params.json", "user.parquet"]
    assert sorted(path.name for path in written.iterdir()) == names
    read = ParameterSet.read(written)
    assert read.same_answers(MIXED)
    assert (read.effects["item"].slope_prior_var, read.effects["group"].prior_var) == (0.1, 0.3)
    items, logits, groups, users = columns()
    found = read.correct(items, logits, groups=groups, users=users)
    assert found.tolist() == pytest.approx(EXPECTED, abs=1e-12)


def test_golden_vectors_cover_known_unknown_and_missing_ids_in_every_combination() -> None:
    found = {
        tuple(
            None if vector[column] is None else vector[column] in known
            for column, known in (("item_id", "abc"), ("group_id", (3, 17)), ("user_id", ("u1", "u2")))
        )
        for vector in golden_vectors(MIXED)
    }
    assert len(found) == 27


def test_a_set_without_one_of_its_effects_fails_its_golden_vectors() -> None:
    vectors = golden_vectors(MIXED)
    check_golden(MIXED, vectors)
    for wrong in (
        replace(MIXED, logit_mean=0.0),
        MIXED.with_effect("item", replace(MIXED.effects["item"], table=ITEMS.drop_columns(["slope"]))),
        MIXED.with_effect("group", Effect(GROUPS.slice(0, 1))),
        replace(MIXED, effects={name: MIXED.effects[name] for name in ("item", "group")}),
    ):
        with pytest.raises(ParameterSetError, match="golden vector"):
            check_golden(wrong, vectors)


def test_a_log_and_a_file_are_corrected_by_every_effect(written: Path, tmp_path: Path) -> None:
    rows = [row for row in ROWS if row[0] is not None and row[3] is not None]
    items, logits, groups, users = zip(*rows, strict=True)
    table = {"item_id": items, "logit": logits, "group_id": pa.array(groups), "user_id": users}
    table = pa.table({**table, "label": [0, 1] * (len(rows) // 2)})
    expected = [by_hand(*row) for row in rows]
    pq.write_table(table, tmp_path / "rows.parquet")
    apply_file(ParameterSet.read(written), tmp_path / "rows.parquet", tmp_path / "out.parquet")
    found = pq.read_table(tmp_path / "out.parquet")["p_corrected"].to_pylist()
    assert found == pytest.approx(expected, abs=1e-12)
    # The groups of a log are text.
    texts = MIXED.with_effect("group", Effect(GROUPS.set_column(0, "id", pa.array(["17", "3"]))))
    texts = texts.with_effect("group", Effect(texts.effects["group"].table.set_column(
        1, "offset", pa.array([-0.5, 0.25]))))  # fmt: skip
    log = InteractionLog.from_table(table)
    assert texts.apply(log).tolist() == pytest.approx(expected, abs=1e-12)
    pq.write_table(table.drop_columns(["group_id"]), tmp_path / "rows.parquet")
    with pytest.raises(InputError, match="no column group_id, which slc_mix needs"):
        apply_file(MIXED, tmp_path / "rows.parquet", tmp_path / "out.parquet")


def test_a_log_without_groups_has_unknown_groups() -> None:
    log = InteractionLog.from_table(pa.table({"item_id": ["a"], "label": [1], "logit": [0.5]}))
    assert MIXED.apply(log).tolist() == pytest.approx([by_hand("a", 0.5, None, None)], abs=1e-12)


@pytest.mark.parametrize("kind", ["lists", "arrow", "pandas", "one by one"])
def test_a_corrector_accepts_groups_and_users_and_counts_unknown_ids(written: Path, kind: str) -> None:
    corrector = Corrector.from_directory(written)
    items, logits, groups, users = columns()
    if kind == "one by one":
        found = [corrector.correct(i, x, groups=g, users=u) for i, x, g, u in ROWS]
    elif kind == "pandas":
        frame = pd.DataFrame({"item_id": items, "logit": logits, "user_id": users})
        frame["group_id"] = pd.array(groups, "Int64")
        found = correct_frame(corrector, frame)["p_corrected"].tolist()
    elif kind == "arrow":
        given = {"groups": pa.array(groups), "users": pa.array(users)}
        found = corrector.correct(pa.array(items), logits, **given).tolist()
    else:
        found = corrector.correct(items, logits, groups=groups, users=users).tolist()
    assert found == pytest.approx(EXPECTED, abs=1e-12)
    health = corrector.health()
    assert {name: each["rows"] for name, each in health["unknown"].items()} == {
        "item": 2 * len(ROWS) // 5,
        "group": len(ROWS) // 2,
        "user": 2 * len(ROWS) // 3,
    }
    assert health["unknown"]["group"]["examples"] == ["4"]
    assert any("user ids that the parameter set does not contain" in each for each in health["warnings"])
    assert (
        f'slc_serving_unknown_rows_total{{deployment="",effect="group"}} {len(ROWS) // 2}'
        in corrector.metrics()
    )


def test_missing_ids_are_unknown_and_counted(written: Path) -> None:
    corrector = Corrector.from_directory(written)
    assert corrector.correct(["a"] * 30, [0.5] * 30)[0] == pytest.approx(by_hand("a", 0.5, None, None))
    assert corrector.correct("a", 0.5) == pytest.approx(by_hand("a", 0.5, None, None))
    assert corrector.correct(None, 0.5) == pytest.approx(by_hand(None, 0.5, None, None))
    unknown = {name: each["rows"] for name, each in corrector.health()["unknown"].items()}
    assert unknown == {"item": 1, "group": 32, "user": 32}
    assert any("is the group id missing?" in each for each in corrector.health()["warnings"])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"groups": [3]}, "1 group ids and logits of shape"),
        ({"users": [1] * 20}, "20 user ids and logits of shape"),
        ({"groups": [1.5, 2.5]}, "group ids are of type float"),
    ],
)
def test_ids_of_another_type_or_length_are_refused_by_name(written: Path, given: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Corrector.from_directory(written).correct(["a", "b"], [0.1, 0.2], **given)


def test_invalid_ids_are_refused_by_name(written: Path) -> None:
    with pytest.raises(InputError, match="user ids cannot be understood"):
        Corrector.from_directory(written).correct(["a"] * 9, [0.1] * 9, users=[object()] * 9)


def test_a_group_is_explained_like_an_item(written: Path) -> None:
    loaded = slc_ops.load(written)
    found = loaded.explain(3, effect="group")
    assert (found.rows, found.offset, found.shrinkage, found.raw) == (40.0, 0.25, 0.5, 0.5)
    assert found.low < 0.25 < found.high
    assert found.after == pytest.approx(by_hand(None, 0.0, 3, None))
    assert found.link_only == pytest.approx(by_hand(None, 0.0, None, None))
    assert "an unseen group" in found.sentence
    assert loaded.explain(99, effect="group").rows == 0.0
    with pytest.raises(ValueError, match="corrects no users"):
        explain(replace(MIXED, effects={"item": Effect(ITEMS)}), "u1", None, "user")


def test_the_distance_of_a_renewal_is_that_of_its_largest_effect() -> None:
    moved = GROUPS.set_column(1, "offset", pa.array([0.25, 0.5]))
    counted = ITEMS.append_column("n_obs", pa.array([1.0] * 3))
    before = MIXED.with_effect("item", Effect(counted)).with_effect("user", Effect(
        USERS.append_column("n_obs", pa.array([1.0, 1.0]))))  # fmt: skip
    after = before.with_effect("group", Effect(moved))
    assert lengths(before, after, (0.0, 1.0)).offsets == pytest.approx(np.sqrt(9 / 49))


# --- sets that a reader refuses ---------------------------------------------------------------------------


def rewritten(directory: Path, name: str, table: pa.Table, **entry: object) -> None:
    """Replace the table of an effect and update everything that depends on it."""
    path = directory / f"{name}.parquet"
    pq.write_table(table, path)
    params = json.loads((directory / "params.json").read_text())
    stated = {"digest": digest_file(path), "bytes": path.stat().st_size, "rows": table.num_rows}
    params["effects"][name] |= stated | {"columns": table.column_names} | entry
    (directory / "params.json").write_text(storage.signed(json.dumps(params)))


@pytest.mark.parametrize(
    ("table", "entry", "message"),
    [
        (pa.concat_tables([USERS, USERS.slice(1)]), {}, "has the id 'u2' twice"),
        (USERS.take([1, 0]), {}, "do not ascend"),
        (pa.table({"id": ["u1", None], "offset": [1.0, 2.0]}), {}, "without an id"),
        (pa.table({"id": ["u1", "u2"], "offset": [1.0, None]}), {}, "offset that is no finite number"),
        (pa.table({"id": ["u1", "u2"], "offset": [1.0, float("nan")]}), {}, "offset that is no finite"),
        (USERS.append_column("slope", pa.array([1.0, float("inf")])), {}, "slope that is no finite number"),
        (pa.table({"id": [1.5], "offset": [1.0]}), {}, "expected id"),
        (USERS.rename_columns(["user_id", "offset"]), {}, "expected id"),
        (USERS.drop_columns(["offset"]), {}, "expected id"),
        (USERS, {"rows": 3}, "has 2 rows of id, offset; params.json says 3"),
        (USERS, {"columns": ["id", "offset", "slope"]}, "params.json says 2 of id, offset, slope"),
        (USERS, {"bytes": 7}, "params.json says 7"),
        (USERS, {"rows": 50_000_001}, "at most 50,000,000 rows"),
        (USERS, {"rows": True}, "at most 50,000,000 rows"),
        (USERS, {"file": "../user.parquet"}, "expected user.parquet"),
        (USERS, {"time_edges": [0.0, 1.0, 2.0]}, "has not 2 time bins for each id"),
        (USERS, {"prior_var": "big"}, "cannot be understood"),
        (USERS, {"time_edges": "now"}, "cannot be understood"),
    ],
)  # fmt: skip
def test_a_table_without_exactly_one_value_per_id_is_refused(
    written: Path, table: pa.Table, entry: dict, message: str
) -> None:
    rewritten(written, "user", table, **entry)
    with pytest.raises(ParameterSetError, match=message):
        ParameterSet.read(written)


def test_an_unreadable_set_is_not_written(tmp_path: Path) -> None:
    twice = replace(MIXED, effects={"item": Effect(pa.concat_tables([ITEMS, ITEMS]))})
    with pytest.raises(ParameterSetError, match="twice"):
        twice.write(tmp_path / "set")
    assert not (tmp_path / "set").exists()


def test_a_set_of_another_deployment_is_refused(tmp_path: Path) -> None:
    MIXED.with_provenance(deployment="films").write(tmp_path / "set")
    storage.read(tmp_path / "set", deployment="films")
    with pytest.raises(ParameterSetError, match="of the deployment 'films'; expected 'school'"):
        storage.read(tmp_path / "set", deployment="school")


def test_an_effect_of_an_unknown_name_is_refused(written: Path) -> None:
    params = json.loads((written / "params.json").read_text())
    params["effects"]["colour"] = params["effects"]["item"]
    (written / "params.json").write_text(storage.signed(json.dumps(params)))
    with pytest.raises(ParameterSetError, match="an effect 'colour'; expected item, group, user"):
        ParameterSet.read(written)


# --- golden vectors on edges (a reader that is wrong only on an edge must fail one) -----------------------


def test_a_reader_with_left_closed_histogram_bins_fails_a_golden_vector() -> None:
    class LeftClosed(Histogram):
        def probability(self, logit, offset, time):  # type: ignore[no-untyped-def]
            q = 1 / (1 + np.exp(-(logit + offset)))
            edges = np.linspace(0, 1, len(self.values) + 1)
            return self.values[np.clip(np.searchsorted(edges, q, side="right") - 1, 0, len(self.values) - 1)]

    values = np.linspace(0.01, 0.99, 15)
    right = ParameterSet("histogram", Histogram(values))
    vectors = golden_vectors(right)
    check_golden(right, vectors)
    with pytest.raises(ParameterSetError, match="golden vector"):
        check_golden(replace(right, link=LeftClosed(values)), vectors)


def test_a_reader_that_is_wrong_at_or_between_knots_fails_a_golden_vector() -> None:
    x, y = np.array([0.1, 0.2, 0.5, 0.8]), np.array([0.05, 0.3, 0.3, 0.9])
    vectors = golden_vectors(ParameterSet("isotonic", Isotonic(x, y)))

    class Steps(Isotonic):
        def probability(self, logit, offset, time):  # type: ignore[no-untyped-def]
            q = np.clip(1 / (1 + np.exp(-(logit + offset))), self.x[0], self.x[-1])
            return self.y[np.abs(q[:, None] - self.x).argmin(axis=1)]

    with pytest.raises(ParameterSetError, match="golden vector"):
        check_golden(ParameterSet("isotonic", Steps(x, y)), vectors)
    for knot in range(4):
        moved = y.copy()
        moved[knot] += 1e-6
        with pytest.raises(ParameterSetError, match="golden vector"):
            check_golden(ParameterSet("isotonic", Isotonic(x, moved)), vectors)


def test_every_piece_of_an_isotonic_link_has_a_golden_vector_in_its_middle() -> None:
    x, y = np.array([0.0, 0.2, 0.5, 0.9, 1.0]), np.array([0.05, 0.3, 0.4, 0.6, 0.9])
    vectors = golden_vectors(ParameterSet("isotonic", Isotonic(x, y)))
    logits = np.array([vector["logit"] for vector in vectors])
    assert np.isfinite(logits).all()
    for middle in (0.1, 0.35, 0.7, 0.95):
        assert np.abs(1 / (1 + np.exp(-logits)) - middle).min() < 1e-12


def test_an_isotonic_link_without_a_piece_still_has_golden_vectors() -> None:
    steep = ParameterSet("isotonic", Isotonic(np.array([0.4, 0.4 + 1e-9]), np.array([0.3, 0.6])))
    check_golden(steep, golden_vectors(steep))


@pytest.mark.parametrize(
    ("ids", "unknown"),
    [
        ([-3, 8], 9),
        ([5, 6, LAST], 4),
        ([-200, -199, LAST], -201),
        ([-LAST - 1, -LAST, LAST], -LAST + 1),
    ],
)
def test_the_unknown_integer_id_of_golden_vectors_is_free_at_both_ends_of_the_range(
    ids: list[int], unknown: int
) -> None:
    table = pa.table({"id": pa.array(ids, pa.int64()), "offset": np.linspace(-0.5, 0.5, len(ids))})
    vectors = golden_vectors(ParameterSet("slc", Affine(1.0, 0.0), {"item": Effect(table)}))
    assert {vector["item_id"] for vector in vectors} == {*ids, unknown, None}


@pytest.mark.parametrize("edge", range(1, 15))
def test_a_reader_with_one_shifted_histogram_edge_fails_a_golden_vector(edge: int) -> None:
    values = np.linspace(0.01, 0.99, 15)
    edges = np.linspace(0, 1, 16)
    edges[edge] += 1e-5

    class Moved(Histogram):
        def probability(self, logit, offset, time):  # type: ignore[no-untyped-def]
            q = 1 / (1 + np.exp(-(logit + offset)))
            return self.values[np.clip(np.searchsorted(edges, q, side="left") - 1, 0, 14)]

    vectors = golden_vectors(ParameterSet("histogram", Histogram(values)))
    with pytest.raises(ParameterSetError, match="golden vector"):
        check_golden(ParameterSet("histogram", Moved(values)), vectors)


def test_golden_vectors_lie_on_and_between_all_knots() -> None:
    x = np.array([0.1, 0.2, 0.5, 0.8])
    vectors = golden_vectors(ParameterSet("isotonic", Isotonic(x, np.array([0.05, 0.3, 0.3, 0.9]))))
    asked = 1 / (1 + np.exp(-np.array([vector["logit"] for vector in vectors])))
    for wanted in (*x, *(x[1:] + x[:-1]) / 2):
        assert np.abs(asked - wanted).min() < 1e-12


def test_a_reader_that_is_wrong_at_a_time_edge_or_without_a_time_fails_a_golden_vector() -> None:
    edges = np.array([0.0, 10.0, 20.0, 30.0])
    table = pa.table({"id": ["a"] * 3, "time_bin": [0, 1, 2], "offset": [0.1, 0.2, 0.3]})
    vectors = golden_vectors(ParameterSet("slc_t", Affine(), {"item": Effect(table, time_edges=edges)}))
    for border in (1, 2):
        early = edges.copy()
        early[border] = np.nextafter(early[border], -np.inf)
        with pytest.raises(ParameterSetError, match="golden vector"):
            check_golden(ParameterSet("slc_t", Affine(), {"item": Effect(table, time_edges=early)}), vectors)

    class FirstBin(ParameterSet):
        def _times(self, times, rows):  # type: ignore[no-untyped-def]
            return np.nan_to_num(times, nan=-np.inf)

    with pytest.raises(ParameterSetError, match="golden vector"):
        check_golden(FirstBin("slc_t", Affine(), {"item": Effect(table, time_edges=edges)}), vectors)


def test_a_missing_time_among_others_is_in_the_last_bin() -> None:
    edges = np.array([0.0, 10.0, 20.0])
    table = pa.table({"id": ["a"] * 2, "time_bin": [0, 1], "offset": [0.1, 0.9]})
    found = ParameterSet("slc_t", Affine(), {"item": Effect(table, time_edges=edges)})
    given = found.correct(["a"] * 3, [0.0] * 3, [5.0, np.nan, 15.0])
    assert given.tolist() == found.correct(["a"] * 3, [0.0] * 3, [5.0, 15.0, 15.0]).tolist()
    assert found.correct_one("a", 0.0, float("nan")) == found.correct_one("a", 0.0)
