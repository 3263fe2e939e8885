"""Invariances of all methods."""

import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from slc_ops.base.errors import OneClassError
from slc_ops.evidence.auc import auc
from slc_ops.methods import METHODS, FitOptions, fit
from slc_ops.rows.interactions import InteractionLog
from tests.methods.synthetic import log, table

PHASES = [Phase.explicit, Phase.reuse, Phase.generate]  # small logs, so that shrinking an example is fast

small_logs = st.lists(
    st.tuples(st.sampled_from("abcdé漢"), st.integers(0, 1), st.floats(-30, 30), st.integers(0, 50)),
    min_size=4,
    max_size=60,
)


def read(rows: list[tuple[str, int, float, int]]) -> InteractionLog:
    item, label, logit, time = zip(*rows, strict=True)
    return InteractionLog.from_table(
        pa.table({"item_id": item, "label": label, "logit": logit, "event_time": time})
    )


NEARLY_SEPARATED = [
    ("c", 0, -225.98592474477738, 19, 1e6), ("a", 0, -700.0, 12, 2.0), ("漢", 1, 1e-9, 1, 1.0),
    ("d", 0, 1e-9, 15, 0.0), ("a", 0, 1e-9, 34, 1e-6), ("é", 1, 3.0, 30, 1e-6), ("b", 0, 0.0, 26, 1.0),
    ("é", 0, -6.103515625e-05, 4, 1e6),
]  # fmt: skip


@example(NEARLY_SEPARATED, "slc_eb")
@settings(max_examples=100, deadline=None, phases=PHASES)
@given(
    st.lists(
        st.tuples(
            st.sampled_from("abcdé漢"),
            st.integers(0, 1),
            st.one_of(st.floats(-700, 700), st.sampled_from([-700.0, 0.0, 700.0, 1e-9])),
            st.integers(0, 50),
            st.sampled_from([0.0, 1e-6, 1.0, 2.0, 1e6]),
        ),
        min_size=2,
        max_size=40,
    ),
    st.sampled_from(list(METHODS)),
)
def test_every_method_gives_probabilities_for_any_log(rows, method):
    item, label, logit, time, weight = zip(*rows, strict=True)
    calibration = InteractionLog.from_table(
        pa.table({"item_id": item, "label": label, "logit": logit, "event_time": time, "weight": weight})
    )
    try:
        found = fit(method, calibration)
    except OneClassError:
        assert len({row[1] for row in rows if row[4] > 0}) < 2
        return
    p = found.apply(calibration)
    assert np.isfinite(p).all()
    assert ((p >= 0) & (p <= 1)).all()


@settings(max_examples=40, deadline=None, phases=PHASES)
@given(small_logs, st.randoms(use_true_random=False))
def test_slc_does_not_depend_on_the_row_order(rows, random):
    if len({row[1] for row in rows}) == 1:
        return
    shuffled = rows.copy()
    random.shuffle(shuffled)
    first, second = fit("slc", read(rows)), fit("slc", read(shuffled))
    assert first.items["id"].to_pylist() == second.items["id"].to_pylist()
    assert np.allclose(first.items["offset"], second.items["offset"], atol=1e-10)
    assert np.allclose(first.apply(read(rows)), second.apply(read(rows)), atol=1e-6)


@settings(max_examples=40, deadline=None, phases=PHASES)
@given(small_logs)
def test_offsets_shrink_with_the_prior_variance(rows):
    if len({row[1] for row in rows}) == 1:
        return
    calibration = read(rows)
    sizes = [
        np.abs(fit("slc", calibration, options=FitOptions(prior_var=v)).items["offset"].to_numpy())
        for v in (0.01, 0.1, 1.0, 10.0)
    ]
    for smaller, larger in itertools.pairwise(sizes):
        assert (smaller <= larger + 1e-12).all()


@pytest.mark.parametrize("method", [m for m in METHODS if m != "base"])
def test_renaming_items_renames_the_parameters(method):
    rows = table(rows=2000)
    names = pa.array([f"{name[::-1]} ✓" for name in rows["item_id"].to_pylist()])
    renamed = rows.set_column(rows.column_names.index("item_id"), "item_id", names)
    first, second = InteractionLog.from_table(rows), InteractionLog.from_table(renamed)
    assert np.allclose(fit(method, first).apply(first), fit(method, second).apply(second), rtol=0, atol=1e-9)


@pytest.mark.parametrize("kind", ["int32", "int64 far apart", "large_string", "dictionary"])
def test_the_type_of_item_ids_does_not_matter(kind):
    rows = table(rows=2000)
    number = np.array([int(name[-3:]) for name in rows["item_id"].to_pylist()])
    ids = {
        "int32": pa.array(number.astype(np.int32)),
        "int64 far apart": pa.array((number - 20) * 10**15),
        "large_string": rows["item_id"].combine_chunks().cast(pa.large_string()),
        "dictionary": rows["item_id"].combine_chunks().dictionary_encode(),
    }[kind]
    retyped = InteractionLog.from_table(rows.set_column(rows.column_names.index("item_id"), "item_id", ids))
    plain = InteractionLog.from_table(rows)
    assert np.array_equal(fit("slc", retyped).apply(retyped), fit("slc", plain).apply(plain))


def test_the_static_fit_does_not_depend_on_the_time_bins():
    rows = log()
    answers = [fit("slc", rows, options=FitOptions(time_bins=bins)).apply(rows) for bins in (2, 10, 50)]
    assert np.array_equal(answers[0], answers[1])
    assert np.array_equal(answers[0], answers[2])


@pytest.mark.parametrize("method", ["platt", "temperature"])
def test_monotone_maps_of_the_score_keep_the_auc(method):
    rows, later = log(), log(seed=5)
    fitted, base = fit(method, rows), fit("base", rows)
    assert auc(later.label, fitted.apply(later)).value == auc(later.label, base.apply(later)).value


def test_float32_logits_equal_the_same_numbers_in_float64():
    rows = table()
    small = rows["logit"].to_numpy().astype(np.float32)
    place = rows.column_names.index("logit")
    first = InteractionLog.from_table(rows.set_column(place, "logit", pa.array(small)))
    second = InteractionLog.from_table(rows.set_column(place, "logit", pa.array(small.astype(np.float64))))
    for method in METHODS:
        assert np.array_equal(fit(method, first).apply(first), fit(method, second).apply(second)), method


def test_probabilities_instead_of_logits_are_clipped_and_turned_into_logits():
    rows = table()
    p = 1 / (1 + np.exp(-rows["logit"].to_numpy()))
    p[:2] = [0.0, 1.0]
    place = rows.column_names.index("logit")
    given_p = InteractionLog.from_table(rows.set_column(place, "probability", pa.array(p)))
    clipped = np.clip(p, 1e-6, 1 - 1e-6)
    logits = pa.array(np.log(clipped / (1 - clipped)))
    given_logit = InteractionLog.from_table(rows.set_column(place, "logit", logits))
    assert np.allclose(given_p.logit, given_logit.logit, atol=1e-9)
    assert np.allclose(
        fit("slc", given_p).apply(given_p), fit("slc", given_logit).apply(given_logit), atol=1e-9
    )


def test_items_without_calibration_rows_get_the_global_link():
    found = fit("slc", log())
    cold = found.correct(["never seen"], [0.4])[0]
    assert cold == pytest.approx(1 / (1 + np.exp(-(found.link.a * 0.4 + found.link.b0))), abs=1e-15)
