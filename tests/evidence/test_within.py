import numpy as np
import pytest

from slc_ops.evidence.auc import Scored, auc
from slc_ops.evidence.compare import compare
from slc_ops.evidence.within import auc_within, ranking_in_words
from tests.methods.synthetic import log


@pytest.mark.parametrize("weighted", [False, True])
def test_the_auc_within_keys_is_the_pair_weighted_mean_of_the_aucs_of_each_key(weighted):
    rng = np.random.default_rng(2)
    key, score = rng.integers(0, 7, 300), np.sort(rng.integers(0, 12, 300)) / 12
    positive = rng.random(300) < 0.4
    weight = rng.random(300) if weighted else np.ones(300)
    wins = pairs = 0.0
    for i in np.flatnonzero(positive):
        for j in np.flatnonzero(~positive):
            if key[i] == key[j]:
                pairs += weight[i] * weight[j]
                wins += weight[i] * weight[j] * ((score[i] > score[j]) + 0.5 * (score[i] == score[j]))
    assert auc_within(key, Scored(score, positive, weight)) == pytest.approx(wins / pairs, abs=1e-12)
    one = auc_within(np.zeros(300, int), Scored(score, positive, weight))
    assert one == pytest.approx(auc(positive.astype(float), score, weight).value, abs=1e-12)
    assert auc_within(key, Scored(score, positive, weight / 1e4)) == pytest.approx(wins / pairs, abs=1e-12)
    assert auc_within(np.arange(300), Scored(score, positive, weight)) is None


def test_an_offset_per_item_does_not_change_the_ranking_within_items():
    found = compare(log(), log(seed=1), methods=["base", "platt", "slc_eb"])
    base, platt, eb = (each.found.within for each in found.methods.values())
    assert eb["item"] == pytest.approx(platt["item"], abs=1e-12) == base["item"]
    assert eb["user"] != platt["user"]
    assert "rows of the same item are ranked alike by all" in (found.ranking or "")


def test_the_sentence_names_the_largest_difference_and_counts_the_others():
    found = {name: {"user": 0.6 + k / 100} for k, name in enumerate(["platt", *"abcdef"])}
    said = ranking_in_words({**found, "worse": {"user": 0.5}, "unknown": {"user": None}})
    assert said == (
        "Compared with platt, rows of the same user are ranked better by c (+0.0300), d (+0.0400), "
        "e (+0.0500), f (+0.0600) and 2 others and worse by worse (−0.1000)."
    )
    assert ranking_in_words({"platt": {"user": 0.5}, "slc_eb": {"user": 0.52}}) == (
        "Compared with platt, rows of the same user are ranked better by slc_eb (+0.0200)."
    )
    assert ranking_in_words({"platt": {}, "slc_eb": {}}) is None
    assert ranking_in_words({"platt": {"user": 0.5}}) is None
