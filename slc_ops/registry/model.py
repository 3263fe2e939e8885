"""The MLflow model directory of a parameter set: models-from-code, signature, example, fixed requirements."""

import shutil
from functools import cache
from importlib.metadata import version as installed
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slc_ops import __version__
from slc_ops.base.errors import RegistryError
from slc_ops.base.mlflow_client import load_mlflow
from slc_ops.parameters.effects import COLUMNS

if TYPE_CHECKING:
    from slc_ops.parameters.parameter_set import ParameterSet

MODEL_CODE = "slc_ops.serving.pyfunc"
PARAMETERS = "artifacts/parameters"
"""Path of the parameter set inside the model directory."""


def write_model(source: Path, parameters: "ParameterSet", directory: Path) -> None:
    """Write the pyfunc model of a parameter set, read from ``source``, into the new ``directory``.

    The requirements are listed, because inferring them starts a second Python and imports every library.
    """
    load_mlflow()
    import mlflow
    import pandas as pd
    from mlflow.models import ModelSignature

    staged = directory.parent / "parameters"  # MLflow keeps the name of the directory it copies
    shutil.copytree(source, staged)
    mlflow.pyfunc.save_model(
        path=str(directory),
        python_model=_code(),
        artifacts={"parameters": str(staged)},
        signature=ModelSignature(inputs=_inputs(parameters), outputs=_outputs()),
        input_example=pd.DataFrame(_example(parameters)),
        pip_requirements=list(requirements()),
    )


@cache
def requirements() -> tuple[str, ...]:
    """Return a scoring host's requirements: the core of slc_ops and MLflow's part for serving.

    Full MLflow and the extras would be three times as large, and unused.
    """
    pinned = ("mlflow-skinny", "numpy", "pandas", "pyarrow")
    return (f"slc-ops=={__version__}", *(f"{name}=={installed(name)}" for name in pinned))


def _code() -> str:
    """Return the path of the model's code without importing it, because this process does not serve."""
    spec = find_spec(MODEL_CODE)
    if spec is None or spec.origin is None:
        raise RegistryError(f"the module {MODEL_CODE} is not installed; install slc-ops again")
    return spec.origin


def _inputs(parameters: "ParameterSet") -> Any:
    """Return the input schema; ids have the type of the fit, so 17 never matches "17"."""
    from mlflow.types.schema import AnyType, ColSpec, Schema

    kind = {None: AnyType(), True: "long", False: "string"}
    others = [name for name in parameters.effects if name != "item"]
    return Schema(
        [
            ColSpec(kind[_integer_ids(parameters)], "item_id", required=parameters.items is not None),
            *(
                ColSpec(kind[_integer_ids(parameters, name)], COLUMNS[name], required=False)
                for name in others
            ),
            ColSpec("double", "logit", required=False),
            ColSpec("double", "probability", required=False),
            ColSpec("double", "event_time", required=False),
            ColSpec("string", "backbone_version", required=False),
        ]
    )


def _outputs() -> Any:
    from mlflow.types.schema import ColSpec, Schema

    return Schema([ColSpec("double", "p_corrected")])


def _integer_ids(parameters: "ParameterSet", effect: str = "item") -> bool | None:
    """Return True if an effect has integer ids; None for a method without it."""
    import pyarrow as pa

    if effect not in parameters.effects:
        return None
    return bool(pa.types.is_integer(parameters.effects[effect].ids.type))


def _example(parameters: "ParameterSet") -> dict[str, list[Any]]:
    ids: list[Any] = [1, 2] if _integer_ids(parameters) else ["item-1", "item-2"]
    return {"item_id": ids, "logit": [0.0, -1.5]}
