"""The MLflow model directory of a parameter set: models-from-code, signature, example, fixed requirements."""

import shutil
from functools import cache
from importlib.metadata import version as installed
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slc_ops import __version__
from slc_ops.base.mlflow_client import load_mlflow
from slc_ops.parameters.effects import COLUMNS

if TYPE_CHECKING:
    from slc_ops.parameters.parameter_set import ParameterSet

MODEL_CODE = Path(__file__).parents[1] / "serving" / "pyfunc.py"
"""The model's code by its path: it is not imported, because this process does not serve."""


def write_model(source: Path, parameters: "ParameterSet", directory: Path) -> None:
    """Write the pyfunc model of a parameter set, read from ``source``, into the new ``directory``.

    The requirements are listed, because inferring them starts a second Python and imports every library.
    """
    load_mlflow()
    import mlflow
    import pandas as pd
    from mlflow.models import ModelSignature
    from mlflow.types.schema import ColSpec, Schema

    types = _id_types(parameters)
    ids: list[Any] = [1, 2] if types.get("item") == "long" else ["item-1", "item-2"]
    staged = directory.parent / "parameters"  # MLflow keeps the name of the directory it copies
    shutil.copytree(source, staged)
    mlflow.pyfunc.save_model(
        path=str(directory),
        python_model=str(MODEL_CODE),
        artifacts={"parameters": str(staged)},
        signature=ModelSignature(inputs=_inputs(types), outputs=Schema([ColSpec("double", "p_corrected")])),
        input_example=pd.DataFrame({"item_id": ids, "logit": [0.0, -1.5]}),
        pip_requirements=list(requirements()),
    )


@cache
def requirements() -> tuple[str, ...]:
    """Return a scoring host's requirements: the core of slc_ops and MLflow's part for serving.

    Full MLflow and the extras would be three times as large, and unused.
    """
    pinned = ("mlflow-skinny", "numpy", "pandas", "pyarrow")
    return (f"slc-ops=={__version__}", *(f"{name}=={installed(name)}" for name in pinned))


def _inputs(types: dict[str, str]) -> Any:
    """Return the input schema; ids have the type of the fit, so 17 never matches "17"."""
    from mlflow.types.schema import AnyType, ColSpec, Schema

    return Schema(
        [
            ColSpec(types.get("item", AnyType()), "item_id", required="item" in types),
            *(ColSpec(kind, COLUMNS[name], required=False) for name, kind in types.items() if name != "item"),
            ColSpec("double", "logit", required=False),
            ColSpec("double", "probability", required=False),
            ColSpec("double", "event_time", required=False),
            ColSpec("string", "backbone_version", required=False),
        ]
    )


def _id_types(parameters: "ParameterSet") -> dict[str, str]:
    """Return MLflow's type of the ids of each effect."""
    import pyarrow as pa

    integer = {name: pa.types.is_integer(each.ids.type) for name, each in parameters.effects.items()}
    return {name: "long" if found else "string" for name, found in integer.items()}
