"""Data frames as passed by MLflow's serving."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from slc_ops.base.errors import InputError
from slc_ops.serving import Corrector
from slc_ops.serving.frames import correct_frame
from tests.registry.factory import parameter_set

ITEMS, LOGITS = ["item-3", "item-9", "never seen"], [0.2, -1.0, 2.0]


@pytest.fixture
def corrector(parameters: Path) -> Corrector:
    return Corrector.from_directory(parameters)


def test_logits_and_probabilities_give_the_same_result_and_keep_the_index(corrector: Corrector) -> None:
    frame = pd.DataFrame({"item_id": ITEMS, "logit": LOGITS}, index=[7, 8, 9])
    answer = correct_frame(corrector, frame)
    assert answer.index.tolist() == [7, 8, 9]
    assert answer["p_corrected"].tolist() == corrector.correct(ITEMS, LOGITS).tolist()
    by_probability = frame.drop(columns="logit").assign(probability=1 / (1 + np.exp(-np.array(LOGITS))))
    found = correct_frame(corrector, by_probability)["p_corrected"]
    assert np.abs(found - answer["p_corrected"]).max() <= 1e-12


def test_certain_probabilities_are_clipped_as_in_the_contract(corrector: Corrector) -> None:
    frame = pd.DataFrame({"item_id": ITEMS[:2], "probability": [0.0, 1.0]})
    logit = np.log(1e-6) - np.log1p(-1e-6)
    expected = corrector.correct(ITEMS[:2], [logit, -logit])
    assert np.abs(correct_frame(corrector, frame)["p_corrected"].to_numpy() - expected).max() <= 1e-9


@pytest.mark.parametrize(
    "columns",
    [
        {"item_id": ["a"]},
        {"item_id": ["a"], "logit": [0.1], "probability": [0.5]},
        {"item_id": ["a"], "probability": [1.5]},
        {"item_id": ["a"], "probability": [float("nan")]},
        {"item_id": ["a"], "logit": [float("inf")]},
        {"logit": [0.1]},
        {"item_id": [1.5], "logit": [0.1]},
    ],
)
def test_columns_that_break_the_contract_are_refused(
    corrector: Corrector, columns: dict[str, list[object]]
) -> None:
    with pytest.raises(InputError):
        correct_frame(corrector, pd.DataFrame(columns))


def test_a_method_without_items_needs_no_ids(tmp_path: Path) -> None:
    corrector = Corrector.from_directory(parameter_set(tmp_path / "platt", method="platt"))
    found = correct_frame(corrector, pd.DataFrame({"logit": LOGITS}))["p_corrected"]
    assert found.tolist() == corrector.correct(["any"] * 3, LOGITS).tolist()
