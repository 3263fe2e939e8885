"""The MLflow model directory: every method loads as pyfunc and gives the probabilities of its set."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from slc_ops.base.mlflow_client import quiet_mlflow
from slc_ops.methods import METHODS
from slc_ops.parameters.parameter_set import ParameterSet
from slc_ops.registry.model import write_model
from tests.registry.factory import parameter_set

ITEMS, LOGITS, TIMES = ["item-3", "item-9", "never seen"], [0.2, -1.0, 2.0], [10.0, 300.0, 9000.0]


@pytest.mark.parametrize("method", METHODS)
def test_every_method_gives_the_same_probabilities_as_pyfunc(
    tmp_path: Path, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    quiet_mlflow()
    import mlflow

    monkeypatch.setenv("MLFLOW_ALLOW_PICKLE_DESERIALIZATION", "False")
    source = parameter_set(tmp_path / "set", method=method)
    parameters = ParameterSet.read(source)
    write_model(source, parameters, tmp_path / "model")
    model = mlflow.pyfunc.load_model(str(tmp_path / "model"))
    frame = pd.DataFrame({"item_id": ITEMS, "logit": LOGITS, "event_time": TIMES})
    found = model.predict(frame)["p_corrected"].to_numpy()
    assert np.abs(found - parameters.correct(ITEMS, LOGITS, TIMES)).max() <= 1e-12


def test_requirements_are_listed_and_the_example_matches_the_signature(tmp_path: Path) -> None:
    from mlflow.models import Model

    source = parameter_set(tmp_path / "set", integer_ids=True)
    write_model(source, ParameterSet.read(source), tmp_path / "model")
    required = (tmp_path / "model" / "requirements.txt").read_text().split()
    assert {line.partition("==")[0] for line in required} == {
        "slc-ops",
        "mlflow-skinny",
        "numpy",
        "pandas",
        "pyarrow",
    }
    model = Model.load(tmp_path / "model")
    assert model.signature is not None
    assert model.load_input_example(str(tmp_path / "model"))["item_id"].dtype == np.int64


def test_the_signature_refuses_ids_of_the_wrong_type(tmp_path: Path) -> None:
    import mlflow

    source = parameter_set(tmp_path / "set", integer_ids=True)
    write_model(source, ParameterSet.read(source), tmp_path / "model")
    model = mlflow.pyfunc.load_model(str(tmp_path / "model"))
    with pytest.raises(mlflow.exceptions.MlflowException, match="item_id"):
        model.predict(pd.DataFrame({"item_id": ["3"], "logit": [0.1]}))
    assert len(model.predict(pd.DataFrame({"item_id": [3], "logit": [0.1]}))) == 1
