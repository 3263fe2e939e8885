"""``ItemCalibrator`` passes scikit-learn's checks and equals ``slc-ops fit``."""

import pickle
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from click.testing import CliRunner
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_estimator

import slc_ops
from slc_ops import ItemCalibrator
from slc_ops.api.errors import BadOption, CannotFit, FrameError
from slc_ops.base.errors import InputError, SlcError
from slc_ops.base.methods import METHODS
from slc_ops.cli import app
from slc_ops.methods import fit
from tests.api.factory import KINDS, as_kind, frame

COLUMNS = {"item": "problem", "logit": "score", "time": "when", "user": "student"}
EXPECTED_TO_FAIL = {
    "slc_eb": {
        "check_sample_weight_equivalence_on_dense_data": "link and offsets are iterated until nothing "
        "moves, so a row of weight 2 and a row twice agree to 1e-8, not to the 1e-9 that is asked for"
    }
}


def features(found: Any) -> Any:
    return found.drop(columns="correct")


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_check_estimator_passes(method: str) -> None:
    """Methods with time use the second column as the time as well: the frames of the checks may have no third
    one.
    """
    time = 1 if METHODS[method].needs_time else None
    found = check_estimator(
        ItemCalibrator(method, item=0, logit=1, time=time),
        expected_failed_checks=EXPECTED_TO_FAIL.get(method, {}),
        on_skip=None,
    )
    assert sum(each["status"] == "passed" for each in found) > 60


def test_weights_equal_repeated_rows_up_to_the_tolerance_of_the_iteration() -> None:
    rows = frame(400)
    weight = np.random.default_rng(1).integers(0, 4, len(rows))
    repeated = rows.loc[rows.index.repeat(weight)]
    columns = {"item": "problem", "logit": "score"}
    one = ItemCalibrator(**columns).fit(features(rows), rows["correct"], sample_weight=weight)
    other = ItemCalibrator(**columns).fit(features(repeated), repeated["correct"])
    np.testing.assert_allclose(
        one.predict_proba(features(rows)), other.predict_proba(features(rows)), atol=1e-7
    )


@pytest.mark.parametrize("method", METHODS)
def test_the_estimator_writes_the_same_bytes_as_the_command_line(method: str, tmp_path: Path) -> None:
    rows = frame()
    rows.to_parquet(tmp_path / "rows.parquet")
    done = CliRunner().invoke(
        app,
        ["fit", "--input", str(tmp_path / "rows.parquet"), "--method", method, "--out", str(tmp_path / "a")]
        + [f"--map={name}" for name in ("item_id=problem", "label=correct", "logit=score")]
        + ["--map=event_time=when", "--map=user_id=student"],
    )
    assert done.exit_code == 0, done.output
    ItemCalibrator(method, **COLUMNS).fit(features(rows), rows["correct"]).save(tmp_path / "b")
    names = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert len(names) >= 2
    for name in names:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), name


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_frame_gives_the_same_probabilities(kind: str) -> None:
    rows, later = frame(), frame(seed=1)
    expected = ItemCalibrator(**COLUMNS).fit(features(rows), rows["correct"]).predict_proba(features(later))
    found = ItemCalibrator(**COLUMNS).fit(as_kind(features(rows), kind), rows["correct"].to_numpy())
    np.testing.assert_array_equal(found.predict_proba(as_kind(features(later), kind)), expected)
    assert list(found.feature_names_in_) == ["problem", "score", "student", "when"]
    assert found.n_features_in_ == 4


def test_plain_arrays_are_read_by_position() -> None:
    rows = frame()
    item = rows["problem"].str.removeprefix("item-").astype(int)
    plain = np.column_stack([item, rows["score"]])
    found = ItemCalibrator(item=0, logit=1).fit(plain, rows["correct"])
    named = ItemCalibrator(item="problem", logit="score").fit(
        pd.DataFrame({"problem": item, "score": rows["score"]}), rows["correct"]
    )
    np.testing.assert_array_equal(
        found.predict_proba(plain), named.predict_proba(pd.DataFrame(plain, columns=["problem", "score"]))
    )
    mixed = np.column_stack([rows["problem"].to_numpy(object), rows["score"]])
    text = ItemCalibrator(item=0, logit=1).fit(mixed, rows["correct"])
    np.testing.assert_allclose(text.predict_proba(mixed), found.predict_proba(plain), atol=1e-12)


def test_unseen_items_get_the_link_alone() -> None:
    rows = frame()
    found = ItemCalibrator("slc", **COLUMNS).fit(features(rows), rows["correct"])
    asked = features(rows).head(2).assign(problem=["item-3", "never seen"], score=[0.4, 0.4])
    known, unseen = found.predict_proba(asked)[:, 1]
    link = found.parameters_.affine()
    assert unseen == pytest.approx(1 / (1 + np.exp(-(link["a"] * 0.4 + link["b0"]))))
    assert known != unseen


def test_the_estimator_follows_a_frozen_classifier_in_a_pipeline() -> None:
    rng = np.random.default_rng(0)
    rows = 4000
    X = pd.DataFrame(
        {"a": rng.normal(size=rows), "b": rng.normal(size=rows), "shop": rng.integers(0, 20, rows)}
    )
    bias = rng.normal(0, 1.5, 20)[X["shop"]]
    y = (rng.random(rows) < 1 / (1 + np.exp(-X["a"] - bias))).astype(int)
    old, new = slice(0, 2000), slice(2000, None)
    frozen = FrozenEstimator(LogisticRegression().fit(X[["a", "b"]][old], y[old]))
    pipeline = make_pipeline(FunctionTransformer(), ItemCalibrator(item="shop", estimator=frozen))
    pipeline.fit(X[new], y[new])
    clone(pipeline).fit(X[new], y[new])  # the frozen model is not refitted
    platt = CalibratedClassifierCV(frozen).fit(X[["a", "b"]][new], y[new])
    likelihood = [
        np.log(np.where(y[new], p, 1 - p)).mean()
        for p in (pipeline.predict_proba(X[new])[:, 1], platt.predict_proba(X[["a", "b"]][new])[:, 1])
    ]
    assert likelihood[0] > likelihood[1] + 0.05
    plain = LogisticRegression().fit(X[["a", "b"]].to_numpy()[old], y[old])
    by_position = ItemCalibrator(item=2, estimator=FrozenEstimator(plain)).fit(X.to_numpy()[new], y[new])
    np.testing.assert_allclose(
        by_position.predict_proba(X.to_numpy()[new]), pipeline.predict_proba(X[new]), atol=1e-9
    )
    with pytest.raises(BadOption, match="FrozenEstimator"):
        ItemCalibrator(item="shop", estimator=LogisticRegression()).fit(X, y)


def test_it_supports_grid_search_clone_cross_validation_and_pickle() -> None:
    rows = frame(600)
    X, y = features(rows), np.where(rows["correct"] == 1, "yes", "no")
    search = GridSearchCV(ItemCalibrator("slc", **COLUMNS), {"prior_var": [0.1, 1.0]}, scoring="neg_log_loss")
    search.fit(X, y)
    assert list(search.classes_) == ["no", "yes"]
    assert cross_val_predict(clone(search.best_estimator_), X, y, method="predict_proba").shape == (600, 2)
    again = pickle.loads(pickle.dumps(search.best_estimator_))  # noqa: S301 - our own bytes
    np.testing.assert_array_equal(again.predict(X), search.predict(X))


def test_transform_returns_the_columns_of_apply_as_either_kind_of_frame() -> None:
    rows = frame(500)
    calibrator = ItemCalibrator(**COLUMNS).fit(features(rows), rows["correct"])
    as_pandas = calibrator.set_output(transform="pandas").transform(features(rows))
    assert isinstance(as_pandas, pd.DataFrame)
    assert list(as_pandas.columns) == ["p_base", "p_corrected"]
    np.testing.assert_array_equal(as_pandas["p_corrected"], calibrator.predict_proba(features(rows))[:, 1])
    assert isinstance(calibrator.set_output(transform="polars").transform(features(rows)), pl.DataFrame)


def test_a_saved_estimator_loads_with_its_columns(tmp_path: Path) -> None:
    rows = frame()
    fitted = ItemCalibrator(**COLUMNS).fit(features(rows), rows["correct"])
    fitted.save(tmp_path / "set")
    loaded = slc_ops.load(tmp_path / "set", item="problem", logit="score")
    np.testing.assert_array_equal(
        loaded.predict_proba(rows[["score", "problem"]]), fitted.predict_proba(features(rows))
    )
    (tmp_path / "set" / "params.json").write_text("{}")
    with pytest.raises(SlcError, match="schema version"):
        slc_ops.load(tmp_path / "set")


BAD = {
    "no item column": (lambda f: f.drop(columns="problem"), "no column 'problem'.*score, student, when"),
    "no score": (lambda f: f.drop(columns="score"), "no column 'score'"),
    "a score that is NaN": (lambda f: f.assign(score=np.nan), "'score'.*3000 rows where it is null"),
    "an infinite score": (lambda f: f.assign(score=np.inf), "'score'.*NaN or infinite"),
    "an item that is null": (lambda f: f.assign(problem=[None, *f["problem"][1:]]), "'problem'.*is null"),
    "items of two types": (lambda f: f.assign(problem=[7, *f["problem"][1:]]), "'problem' cannot be read"),
    "items that are fractions": (lambda f: f.assign(problem=0.5), "'problem' holds the item 0.5"),
    "text as a score": (lambda f: f.assign(score="high"), "'score'.*expected numbers"),
    "no rows": (lambda f: f.head(0), "have no rows"),
}


@pytest.mark.parametrize("what", BAD)
def test_an_invalid_frame_is_refused_in_one_sentence(what: str) -> None:
    rows = frame()
    change, said = BAD[what]
    changed = change(features(rows))
    with pytest.raises(FrameError, match=said) as caught:
        ItemCalibrator(**COLUMNS).fit(changed, rows["correct"].head(len(changed)))
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, InputError)
    assert "\n" not in str(caught.value)


def test_invalid_labels_are_refused() -> None:
    rows = frame(100)
    calibrator = ItemCalibrator(**COLUMNS)
    with pytest.raises(CannotFit, match=r"1 class\(es\) \(1\)"):
        calibrator.fit(features(rows), np.ones(100, int))
    with pytest.raises(CannotFit, match="Only binary"):
        calibrator.fit(features(rows), np.arange(100) % 3)
    with pytest.raises(FrameError, match="inconsistent"):
        calibrator.fit(features(rows), rows["correct"][:50])
    with pytest.raises(FrameError, match="requires y"):
        calibrator.fit(features(rows), None)


def test_columns_that_differ_from_the_fit_are_refused() -> None:
    rows = frame(200)
    calibrator = ItemCalibrator(**COLUMNS).fit(features(rows), rows["correct"])
    with pytest.raises(FrameError, match="X has no column 'problem', which item= names"):
        calibrator.predict_proba(features(rows).rename(columns={"problem": "item"}))
    with pytest.raises(FrameError, match=r"'problem' holds items of type int64.*fitted to string"):
        calibrator.predict_proba(features(rows).assign(problem=7))
    with pytest.raises(NotFittedError):
        ItemCalibrator().predict_proba(rows)


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_without_an_item_counts_as_an_unseen_item(kind: str) -> None:
    rows = frame(300)
    calibrator = ItemCalibrator(**COLUMNS).fit(features(rows), rows["correct"])
    some = features(rows).head(40)
    expected = calibrator.predict_proba(some)
    unseen = calibrator.predict_proba(some.assign(problem="never seen"))
    gaps = some.assign(problem=[None if k % 3 == 0 else each for k, each in enumerate(some["problem"])])
    found = calibrator.predict_proba(as_kind(gaps, kind))
    third = np.arange(40) % 3 == 0
    assert found[third].tolist() == unseen[third].tolist()
    assert found[~third].tolist() == expected[~third].tolist()
    nothing = calibrator.predict_proba(as_kind(some.assign(problem=None), kind))
    assert nothing.tolist() == unseen.tolist()


def test_missing_values_do_not_change_integer_item_ids() -> None:
    rows = frame(300).assign(problem=lambda each: each["problem"].str[5:].astype(int))
    calibrator = ItemCalibrator(**COLUMNS).fit(features(rows), rows["correct"])
    some = features(rows).head(9)
    gaps = some.assign(problem=[np.nan, *some["problem"].iloc[1:]])
    found, expected = calibrator.predict_proba(gaps), calibrator.predict_proba(some)
    assert found[1:].tolist() == expected[1:].tolist()
    assert found[0].tolist() == calibrator.predict_proba(some.assign(problem=10**6))[0].tolist()
    with pytest.raises(FrameError, match="NaN"):
        ItemCalibrator(**COLUMNS).fit(gaps, rows["correct"].head(9))


def test_predict_requires_only_the_columns_that_it_needs() -> None:
    rows = frame(300)
    for method, needed in (
        ("slc_eb", ["problem", "score"]),
        ("platt", ["score"]),
        ("slc_t", ["problem", "when", "score"]),
    ):
        calibrator = ItemCalibrator(method, **COLUMNS).fit(features(rows), rows["correct"])
        expected = calibrator.predict_proba(features(rows)).tolist()
        assert calibrator.predict_proba(rows[needed]).tolist() == expected
        with pytest.raises(FrameError):
            calibrator.predict_proba(rows[needed[:-1]] if len(needed) > 1 else rows[["problem"]])


def test_probabilities_passed_as_logits_give_a_warning() -> None:
    rows = frame(2000)
    given = features(rows).assign(score=1 / (1 + np.exp(-rows["score"])))
    with pytest.warns(
        UserWarning, match=r"'score'.*likelier if they are probabilities: pass .* probability="
    ):
        ItemCalibrator("platt", **COLUMNS).fit(given, rows["correct"])
    flat = features(rows).assign(score=np.random.default_rng(0).uniform(0.1, 0.2, len(rows)))
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        ItemCalibrator("platt", **COLUMNS).fit(flat, rows["correct"])
        ItemCalibrator("platt", **COLUMNS).fit(features(rows), rows["correct"])


def test_invalid_options_are_refused() -> None:
    rows = frame(200)
    for options, said in [
        ({"method": "slcc"}, "did you mean 'slc'"),
        ({"prior_var": -1.0}, "prior_var"),
        ({"item": None}, "item="),
        ({"probability": "score"}, "both given"),
    ]:
        with pytest.raises(BadOption, match=said):
            ItemCalibrator(**{**COLUMNS, **options}).fit(features(rows), rows["correct"])
    with pytest.raises(FrameError, match="plain array without names"):
        ItemCalibrator().fit(np.zeros((4, 2)), [0, 1, 0, 1])


def test_the_ladder_accepts_frames() -> None:
    rows = frame().rename(columns={"problem": "item_id", "score": "logit", "correct": "label"})
    found = [fit("slc_eb", as_kind(rows, kind)).prior_var for kind in KINDS]
    assert len(set(found)) == 1
    with pytest.raises(InputError, match="expected a pandas, Polars or Arrow frame"):
        fit("slc_eb", [1, 2, 3])
    with pytest.raises(InputError, match=r"\.collect\(\)"):
        fit("slc_eb", pl.from_pandas(rows).lazy())


def test_an_item_is_explained_with_the_sums_of_its_rows(tmp_path: Path) -> None:
    rows = frame()
    calibrator = ItemCalibrator("slc", **COLUMNS).fit(features(rows), rows["correct"])
    mine = rows[rows["problem"] == "item-17"]
    p = 1 / (1 + np.exp(-mine["score"]))
    W = float((p * (1 - p)).sum())
    found = calibrator.explain("item-17")
    assert found.rows == len(mine)
    assert found.observed == pytest.approx(mine["correct"].mean())
    assert found.predicted == pytest.approx(p.mean())
    assert found.raw == pytest.approx((mine["correct"].sum() - p.sum()) / W)
    assert found.shrinkage == pytest.approx(W / (1 + W))
    assert found.offset == pytest.approx(found.raw * found.shrinkage)
    assert found.high - found.low == pytest.approx(2 * 1.95996 / np.sqrt(1 + W), rel=1e-4)
    assert f"{len(mine)} rows" in found.sentence
    assert "<svg" in found._repr_html_()
    unseen = calibrator.explain("never seen")
    assert (unseen.rows, unseen.offset, unseen.raw) == (0, 0, None)
    assert "not in the calibration rows" in repr(unseen)
    with pytest.raises(BadOption, match="corrects no items"):
        ItemCalibrator("platt", **COLUMNS).fit(features(rows), rows["correct"]).explain("item-17")
    loaded = slc_ops.load(calibrator.save(tmp_path / "set"), item="problem", logit="score")
    kept = loaded.explain("item-17")
    assert (kept.observed, kept.predicted, kept.rows, kept.offset) == (None, None, len(mine), found.offset)
    assert "whose rates a saved set does not store" in kept.sentence
    assert "usual score" not in kept.sentence
    assert "goes from 50.0% to" in kept.sentence
    assert loaded.explain("item-17", features(rows), rows["correct"]) == found


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = "import sys, slc_ops; print(dir(slc_ops)); print([n for n in sys.modules if n in %r])"
    heavy = ("numpy", "pyarrow", "sklearn", "pandas", "matplotlib", "scipy", "click")
    done = subprocess.run([sys.executable, "-c", code % (heavy,)], capture_output=True, text=True, check=True)
    names, loaded = done.stdout.splitlines()
    assert loaded == "[]"
    assert {"ItemCalibrator", "load"} <= set(eval(names))  # noqa: S307 - what the line above printed
    with pytest.raises(AttributeError, match="it has ItemCalibrator"):
        slc_ops.nothing  # noqa: B018 - asking is the point


def test_arrow_batches_and_chunks_are_frames_too() -> None:
    rows = frame(400)
    table = pa.Table.from_pandas(features(rows), preserve_index=False)
    chunked = pa.concat_tables([table.slice(0, 150), table.slice(150)])
    one = ItemCalibrator(**COLUMNS).fit(chunked, rows["correct"]).predict_proba(table)
    other = (
        ItemCalibrator(**COLUMNS).fit(table.to_batches()[0], pa.array(rows["correct"])).predict_proba(table)
    )
    np.testing.assert_array_equal(one, other)


def mixed_rows(seed=0, rows=6000):
    """Many items with few rows, and real effects of groups and users."""
    rng = np.random.default_rng(seed)
    item, user, score = rng.integers(0, 1500, rows), rng.integers(0, 60, rows), rng.normal(0, 1, rows)
    group, own = rng.normal(0, 1, 6), rng.normal(0, 0.8, 60)
    right = rng.random(rows) < 1 / (1 + np.exp(-score - group[item % 6] - own[user]))
    names = [None if k % 50 == 7 else f"g{k % 6}" for k in item]
    frame = {"problem": item, "score": score, "skill": names, "student": user, "at": np.arange(rows)}
    return pd.DataFrame(frame), right


@pytest.mark.parametrize("times", [{"time": "at"}, {}], ids=["with times", "without times"])
def test_groups_and_users_have_effects_only_if_named(times):
    rows, right = mixed_rows()
    columns = {"item": "problem", "logit": "score", "group": "skill", "user": "student", **times}
    mixed = ItemCalibrator("slc_mix", user_effect=True, **columns).fit(rows, right)
    assert set(mixed.parameters_.effects) == {"item", "group", "user"}
    assert "user" not in ItemCalibrator("slc_mix", **columns).fit(rows, right).parameters_.effects
    whole = mixed.predict_proba(rows)[:, 1]
    expected = mixed.parameters_.correct(rows.problem, rows.score, groups=rows.skill, users=rows.student)
    np.testing.assert_array_equal(whole, expected)
    unknown = mixed.predict_proba(rows.drop(columns=["skill", "student"]))[:, 1]
    np.testing.assert_array_equal(unknown, mixed.parameters_.correct(rows.problem, rows.score))
    found = mixed.explain(3, group="g3", user=5)
    assert list(found.blocks) == ["item", "group", "user"]
    assert "To the logit the item" in found.sentence
    assert len(found.plot().axes) == 2
    logit = np.log(found.before) - np.log1p(-found.before)
    link = mixed.parameters_.link
    eta = link.a * logit + link.b0 + sum(found.blocks.values())
    assert found.after == pytest.approx(1 / (1 + np.exp(-eta)))


def test_user_effects_need_their_method_and_their_column():
    rows, right = mixed_rows(rows=500)
    for options in ({"method": "slc_mix"}, {"method": "slc_eb", "user": "student"}):
        with pytest.raises(
            ValueError, match="user_effect=True is for slc_mix, and needs the column of users"
        ):
            ItemCalibrator(item="problem", logit="score", user_effect=True, **options).fit(rows, right)
