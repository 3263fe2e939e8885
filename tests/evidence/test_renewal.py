"""The sanity check of renewed parameters: when it accepts, holds and yields."""

import numpy as np
import pyarrow as pa
import pytest

from slc_ops.evidence.renewal import check_renewal, lengths
from slc_ops.numerics.curves import Affine
from slc_ops.parameters.effects import Effect
from slc_ops.parameters.parameter_set import ParameterSet

MOMENTS = (-1.0, 2.0)


def made(a=1.0, b0=0.0, offsets=(0.1, -0.2, 0.3), ids=("a", "b", "c"), n=(10.0, 20.0, 30.0)):
    items = pa.table({"id": list(ids), "offset": list(offsets), "n_obs": list(n)})
    return ParameterSet("slc_eb", Affine(a, b0), {"item": Effect(items)})


def steady(count=6, sd=0.05, seed=0):
    rng = np.random.default_rng(seed)
    return [
        made(b0=rng.normal(0, sd), offsets=np.array([0.1, -0.2, 0.3]) + rng.normal(0, sd, 3))
        for _ in range(count)
    ]


def test_the_distance_of_the_link_is_the_rms_shift_of_the_rows():
    rng = np.random.default_rng(1)
    eta = rng.normal(*MOMENTS, 200_000)
    one, other = made(1.0, 0.2), made(1.3, -0.1)
    moved = (1.3 - 1.0) * eta + (-0.1 - 0.2)
    assert lengths(one, other, MOMENTS).link == pytest.approx(np.sqrt(np.mean(moved**2)), rel=0.01)


def test_the_distance_of_the_offsets_weights_items_by_rows_and_uses_common_items():
    one = made(offsets=(0.0, 0.0), ids=("b", "c"), n=(1.0, 1.0))
    other = made(offsets=(9.0, 0.3, -0.4), ids=("a", "b", "c"), n=(99.0, 1.0, 3.0))
    assert lengths(one, other, MOMENTS).offsets == pytest.approx(np.sqrt((0.09 + 3 * 0.16) / 4))


def test_a_usual_renewal_is_accepted_and_a_large_change_is_held():
    past = steady()
    assert check_renewal(steady(seed=9)[0], past, MOMENTS).accepted
    leap = check_renewal(made(b0=2.0), past, MOMENTS)
    assert not leap.accepted
    assert leap.lengths.link > leap.limit.link
    assert "left out of later fits" in leap.sentence
    thrown = check_renewal(made(offsets=(3.0, -3.0, 3.0)), past, MOMENTS)
    assert not thrown.accepted


def test_a_second_large_change_in_a_row_is_accepted():
    found = check_renewal(made(b0=2.0), steady(), MOMENTS, held_before=True)
    assert (found.accepted, found.lasting) == (True, True)
    assert "lasting change" in found.sentence
    calm = check_renewal(steady(seed=9)[0], steady(), MOMENTS, held_before=True)
    assert (calm.accepted, calm.lasting) == (True, False)


def test_a_short_history_sets_no_limit():
    assert check_renewal(made(b0=2.0), steady(4), MOMENTS).accepted
    assert not check_renewal(made(b0=2.0), steady(5), MOMENTS).accepted
    assert check_renewal(made(b0=2.0), [], MOMENTS).sentence == "the first parameters of slc_eb"


def test_the_limit_has_a_floor_after_small_renewals():
    past = [made() for _ in range(6)]
    assert check_renewal(made(b0=0.45), past, MOMENTS).accepted
    assert not check_renewal(made(b0=0.55), past, MOMENTS).accepted


def test_a_negative_slope_is_held_without_any_history():
    found = check_renewal(made(a=-0.2), [], MOMENTS, held_before=True)
    assert (found.accepted, found.lasting, found.lengths) == (False, False, None)
    assert "ranks in reverse" in found.sentence


def test_a_slope_within_two_standard_errors_of_0_is_not_called_negative():
    assert check_renewal(made(a=-0.01), [], MOMENTS, slope_error=0.006).accepted
    assert not check_renewal(made(a=-0.01), [], MOMENTS, slope_error=0.004).accepted


def test_small_steps_in_one_direction_are_held_by_their_sum_and_name_the_items():
    steps = [made(offsets=(-0.45 * k, 0.0, 0.0), n=(30.0, 20.0, 10.0)) for k in range(5)]
    rest = [steps[0]] * 5
    assert check_renewal(steps[1], rest, MOMENTS).accepted
    found = check_renewal(steps[4], [*rest, *steps[1:4]], MOMENTS)
    assert not found.accepted
    assert "over the last 4 renewals" in found.sentence
    assert "the items that account for most of it are a by" in found.sentence


def test_a_method_without_items_checks_the_link_only():
    past = [ParameterSet("platt", Affine(1.0, 0.01 * k)) for k in range(6)]
    assert check_renewal(ParameterSet("platt", Affine(1.0, 0.2)), past, MOMENTS).accepted
    assert not check_renewal(ParameterSet("platt", Affine(1.0, 1.0)), past, MOMENTS).accepted
    assert lengths(past[0], past[1], MOMENTS).offsets == lengths(past[0], made(), MOMENTS).offsets == 0


def test_reversed_logits_are_held_as_long_as_they_last():
    past = [made() for _ in range(6)]
    turned = check_renewal(made(a=-1.0), past, MOMENTS)
    again = check_renewal(made(a=-1.0), past, MOMENTS, held_before=True)
    assert not turned.accepted
    assert not again.accepted
    assert "ranks in reverse" in again.sentence


def test_the_slope_of_an_uninformative_backbone_may_cross_0():
    past = [made(a=a) for a in (0.02, 0.01, 0.03, 0.0, 0.02, 0.01)]
    assert check_renewal(made(a=-0.01), past, MOMENTS).accepted
    assert not check_renewal(made(a=-0.01), past[:3], MOMENTS).accepted


def test_steps_within_the_limit_are_held_if_several_of_them_add_up_too_far():
    """Without earlier moves the limit is 0.5, and 1.0 over four renewals."""
    still = [made() for _ in range(6)]
    found = check_renewal(made(b0=1.35), [*still, made(b0=0.45), made(b0=0.9)], MOMENTS)
    assert found.lengths.link == pytest.approx(0.45)
    assert not found.accepted
    assert "over the last 4 renewals" in found.sentence
    assert check_renewal(made(b0=0.6), [*still, made(b0=0.2), made(b0=0.4)], MOMENTS).accepted


def test_a_slope_of_exactly_zero_does_not_rank_forwards():
    found = check_renewal(made(a=0.0), steady(), MOMENTS, held_before=True)
    assert not found.accepted
    assert found.sentence.startswith("the slope of slc_eb is 0.000")


def test_offsets_that_follow_time_have_no_distance():
    def in_bins(offset):
        columns = {"id": ["a", "a"], "time_bin": [0, 1], "offset": [offset, offset], "n_obs": [5.0, 5.0]}
        return ParameterSet(
            "slc_t", Affine(1.0, 0.0), {"item": Effect(pa.table(columns), time_edges=np.arange(3.0))}
        )

    assert lengths(in_bins(0.0), in_bins(2.0), MOMENTS).offsets == 0


def test_sets_without_a_common_id_have_offsets_at_no_distance():
    one, other = made(offsets=(0.5,), ids=("a",), n=(1.0,)), made(offsets=(2.0,), ids=("b",), n=(1.0,))
    assert lengths(one, other, MOMENTS).offsets == 0
