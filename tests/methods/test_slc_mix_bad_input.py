"""``slc_mix`` with irregular groups and users; docs/methods.md defines each case."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slc_ops.base.errors import SettingsError
from slc_ops.methods import FitOptions, fit, fit_prepared
from slc_ops.methods.fitting.calibration import Calibration
from slc_ops.methods.fitting.options import Forgetting
from slc_ops.rows.interactions import InteractionLog
from slc_ops.serving import Corrector
from tests.methods.biased_rows import log_of, nll, predictions
from tests.methods.test_slc_mix import ALL, chosen, world


def test_effect_names_must_be_valid_and_include_items():
    with pytest.raises(SettingsError, match="effects has 'skill'; expected some of item, slope, group, user"):
        FitOptions(effects=("item", "skill"))
    with pytest.raises(SettingsError, match="item must be among them"):
        FitOptions(effects=("group",))


def test_a_single_group_or_user_is_not_a_block():
    table = world(rows=2000)[0]
    same = table.set_column(2, "group_id", pa.array(["only"] * 2000)).set_column(
        1, "user_id", pa.array([7] * 2000)
    )
    assert not {"group", "user"} & set(chosen(same).entered)


def test_users_with_one_row_each_never_enter():
    table, later = (
        each.set_column(1, "user_id", pa.array(np.arange(20_000) + 20_000 * k))
        for k, each in enumerate(world(rows=20_000, user=0.8))
    )
    found = fit("slc_mix", log_of(table), options=ALL)
    assert "user" not in found.effects
    assert nll(found, later) == pytest.approx(nll(fit("slc_eb", log_of(table)), later), abs=1e-3)


def test_users_with_one_row_do_not_exclude_returning_users():
    # Half of the rows belong to one-time guests; returning users still get effects.
    table, later = world(rows=6000, users=40, user=0.9)
    rng = np.random.default_rng(5)
    guest = rng.random(6000) < 0.5
    user = np.where(guest, 1000 + np.arange(6000), table["user_id"].to_numpy())
    found = fit("slc_mix", log_of(table.set_column(1, "user_id", pa.array(user))), options=ALL)
    assert "user" in found.effects
    assert nll(found, later) < nll(fit("slc_eb", log_of(table)), later) - 0.01


def test_items_in_several_groups_and_rows_without_one_are_fitted():
    table = world(8, items=1500, group=0.9)[0]
    rng = np.random.default_rng(2)
    moved = [None if r < 0.2 else f"g{rng.integers(0, 6)}" if r < 0.4 else g
             for r, g in zip(rng.random(6000), table["group_id"].to_pylist(), strict=True)]  # fmt: skip
    found = fit("slc_mix", log_of(table.set_column(2, "group_id", pa.array(moved))), options=ALL)
    assert found.effects["group"].table["id"].to_pylist() == [f"g{k}" for k in range(6)]
    none, unknown = found.correct(["i0"] * 2, [0.3, 0.3], groups=[None, "never seen"], users=[1, 1])
    assert none == unknown


def test_integer_groups_match_as_integers_and_as_text():
    table = world(items=1500, group=0.9)[0]
    numbers = pa.array([int(each[1:]) for each in table["group_id"].to_pylist()])
    found = fit("slc_mix", log_of(table.set_column(2, "group_id", numbers)), options=ALL)
    one, other = (found.correct(["i1"], [0.3], groups=g) for g in ([4], ["4"]))
    assert one == other
    assert one == found.correct_one("i1", 0.3, group=4)
    assert one != found.correct(["i1"], [0.3])


def test_an_unknown_item_keeps_the_effect_of_its_group():
    table, _ = world(items=1500, group=1.0)
    found = fit("slc_mix", log_of(table), options=ALL)
    effect = found.effects["group"].table
    high = effect["id"][int(np.argmax(effect["offset"].to_numpy()))].as_py()
    cold, nothing = found.correct(["new", "new"], [0.0, 0.0], groups=[high, "new"])
    assert cold > nothing + 0.1


# --- groups that come and go between windows ------------------------------------------------------------


def test_windows_without_the_group_column_count_as_rows_without_a_group(tmp_path):
    """A window without group_id equals one whose group_id is null."""
    early, late = world(9, items=1500, group=0.9)
    absent, null = (
        late.drop_columns(["group_id"]),
        late.set_column(2, "group_id", pa.nulls(6000, pa.string())),
    )
    found = []
    for name, tables in {"absent": [early, absent], "null": [early, null]}.items():
        paths = [tmp_path / f"{name}-{k}.parquet" for k in range(2)]
        for each, path in zip(tables, paths, strict=True):
            pq.write_table(each, path)
        found.append(fit("slc_mix", InteractionLog.read(paths), options=FitOptions(threads=1)))
    assert found[0].same_answers(found[1])


@pytest.mark.parametrize("gone", ["old", "new"])
def test_windows_may_have_groups_only_in_part(gone):
    """Groups are selected on the windows of the offsets; other windows and served rows may lack them."""
    old, new = world(9, items=1500, group=0.9)
    without = {"old": (old.drop_columns(["group_id"]), new), "new": (old, new.drop_columns(["group_id"]))}[
        gone
    ]
    both = pa.concat_tables(without, promote_options="default")
    options, forget = FitOptions(threads=1), Forgetting((0.0, 6000.0), 8.0)
    long, link = Calibration(log_of(both), None, options), Calibration(log_of(without[1]), None, options)
    found = fit_prepared("slc_mix", link, long, Calibration(log_of(both), None, options, forget))
    assert np.isfinite(predictions(new, found)).all()
    assert np.isfinite(predictions(without[1], found)).all()


def test_groups_without_recent_rows_do_not_enter():
    table = world(9, items=1500, group=0.9)[0].drop_columns(["group_id"])
    mix, eb = (fit(name, log_of(table)) for name in ("slc_mix", "slc_eb"))
    np.testing.assert_allclose(predictions(table, mix), predictions(table, eb), rtol=0, atol=1e-9)


def test_serving_counts_unseen_groups_and_users(tmp_path):
    found = fit("slc_mix", log_of(world(items=1500, group=0.9)[0]), options=ALL)
    found.write(tmp_path / "set")
    corrector = Corrector.from_directory(tmp_path / "set")
    none, unknown = corrector.correct(["i1"] * 2, [0.3] * 2, groups=[None, "new"]).tolist()
    assert none == unknown == found.correct_one("i1", 0.3)
    assert corrector.health()["unknown"]["group"] == {"rows": 2, "examples": ["new"]}
