"""Intervals of up to 54 slices have simultaneous coverage, by simulation."""

import numpy as np
import pytest

from slc_ops.evidence import uncertainty
from slc_ops.evidence.uncertainty import Clusters, PairedDifference, difference, user_sums
from slc_ops.evidence.verdict import slice_reasons
from slc_ops.settings.blocks import Decision

USERS, ITEMS, ROWS = 200, 150, 6000
WORLDS, REPLICATES = 200, 400
BLOCKING = Decision(max_slice_nll_loss=0.0)


def equals_platt(seed, slices=54):
    """User sums by slice of two predictions that are equally far from the truth on every item. Fifty groups,
    three bands of density and one cold-start slice, as in a refresh; users have abilities unknown to both
    predictions, and are in many slices.
    """
    rng = np.random.default_rng([17, seed])
    user, item = rng.integers(0, USERS, ROWS), rng.integers(0, ITEMS, ROWS)
    known = rng.normal(0, 1.2, ROWS)
    label = (rng.random(ROWS) < sigmoid(known + rng.normal(0, 0.5, USERS)[user])).astype(float)
    ours, platts = (sigmoid(known + 0.3 * rng.choice([-1.0, 1.0], ROWS)) for _ in range(2))
    clusters = Clusters(user, USERS)
    chosen = [item % 50 == k for k in range(50)] + [item % 4 == k for k in range(4)]

    def sums(probability, rows):
        return user_sums(label[rows], probability[rows], clusters.take(np.flatnonzero(rows)))

    return [(sums(ours, rows), sums(platts, rows)) for rows in chosen[-slices:]]


def differences(pairs, **options):
    return list(uncertainty.differences(dict(enumerate(pairs)), **options).values())


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def held(found):
    named = {f"group:{k}": each for k, each in enumerate(found)}
    return any(reason.effect == "hold" for reason in slice_reasons(named, BLOCKING))


def all_hold_the_truth(found):
    return all(each.nll.low <= 0 <= each.nll.high for each in found)


@pytest.mark.slow
def test_with_54_slices_a_candidate_equal_to_platt_is_held_as_rarely_as_with_one():
    apart = together = covered = 0
    for seed in range(WORLDS):
        pairs = equals_platt(seed)
        one_by_one = differences(pairs, replicates=REPLICATES)
        at_once = differences(pairs, replicates=REPLICATES, simultaneous=True)
        apart += held(one_by_one)
        together += held(at_once)
        covered += all_hold_the_truth(at_once)
    # Separately: 1 − 0.975⁵⁴ is 75 %. Simultaneously: 2.5 % on the side that holds, 5 % on both sides; the
    # bounds are 5 % and 10 %, which chance exceeds in one of a hundred sets of 200 worlds.
    assert apart >= 0.6 * WORLDS
    assert together <= 0.05 * WORLDS
    assert covered >= 0.90 * WORLDS


def test_for_one_slice_the_interval_has_its_nominal_coverage():
    worlds, hits = 300, {0.95: 0, 0.8: 0}
    for seed in range(worlds):
        pairs = equals_platt(seed, slices=1)
        for confidence in hits:
            found = differences(pairs, confidence=confidence, replicates=REPLICATES, simultaneous=True)
            hits[confidence] += all_hold_the_truth(found)
    assert 0.91 * worlds <= hits[0.95] <= 0.985 * worlds
    assert 0.73 * worlds <= hits[0.8] <= 0.87 * worlds


def test_simultaneous_intervals_are_wider_around_the_same_estimate():
    pairs = equals_platt(0)
    for apart, together in zip(differences(pairs), differences(pairs, simultaneous=True), strict=True):
        assert together.nll.estimate == apart.nll.estimate
        assert together.nll.high - together.nll.low > 1.4 * (apart.nll.high - apart.nll.low)
        assert (together.n_simultaneous, apart.n_simultaneous) == (54, 1)


def test_for_one_slice_both_kinds_of_interval_are_equal():
    ((a, b),) = equals_platt(3, slices=1)
    apart, (together,) = difference(a, b), differences([(a, b)], simultaneous=True)
    assert together.nll.high - together.nll.low == pytest.approx(apart.nll.high - apart.nll.low, rel=0.08)


def test_a_clearly_worse_slice_is_still_found_among_54():
    pairs = equals_platt(1)
    a, b = pairs[0]
    a.means["nll"] = b.means["nll"] + 0.3 * b.weight + 0.05 * np.random.default_rng(0).normal(size=USERS)
    found = differences(pairs, simultaneous=True)
    assert found[0].nll.low > 0.2
    assert held(found)


def test_slices_without_an_interval_or_without_a_difference_do_not_widen_the_others():
    pairs = equals_platt(2, slices=3)
    same = (pairs[0][0], pairs[0][0])
    few = user_sums(np.array([0.0, 1.0]), np.array([0.4, 0.6]), Clusters(np.array([0, 1]), USERS))
    plain = differences(pairs, simultaneous=True)
    crowded = differences([*pairs, same, (few, few)], simultaneous=True)
    assert [each.nll for each in crowded[:3]] == [each.nll for each in plain]
    assert (crowded[3].nll.low, crowded[3].nll.high) == (0.0, 0.0)
    assert "at least 10 users" in crowded[4].nll.reason


def test_the_reason_states_that_the_intervals_are_simultaneous():
    pairs = equals_platt(1)
    pairs[0][0].means["nll"] = pairs[0][1].means["nll"] + 0.3 * pairs[0][1].weight
    found = dict(zip([f"group:{k}" for k in range(54)], differences(pairs, simultaneous=True), strict=True))
    (reason,) = slice_reasons(found, BLOCKING)
    assert "a 95% interval, simultaneous over 54 slices" in reason.sentence


def test_older_evidence_is_read_as_separate_intervals():
    found = differences(equals_platt(0, slices=1))[0].as_dict()
    del found["n_simultaneous"]
    assert PairedDifference.from_dict(found).n_simultaneous == 1


def test_a_slice_that_differs_only_by_rounding_does_not_affect_the_others():
    rng = np.random.default_rng(3)
    user = rng.integers(0, USERS, ROWS)
    known = rng.normal(0, 1.2, ROWS)
    label = (rng.random(ROWS) < sigmoid(known)).astype(float)
    clusters = Clusters(user, USERS)
    ours = sigmoid(known + 0.3 * rng.choice([-1.0, 1.0], ROWS))
    pair = user_sums(label, ours, clusters), user_sums(label, sigmoid(known), clusters)
    same = user_sums(label, sigmoid(known), clusters), user_sums(label, sigmoid(known + 1e-15), clusters)
    (alone,) = differences([pair], replicates=REPLICATES, simultaneous=True)
    found, equal = differences([pair, same], replicates=REPLICATES, simultaneous=True)
    assert found.nll == alone.nll
    assert np.isfinite([equal.nll.low, equal.nll.high]).all()
