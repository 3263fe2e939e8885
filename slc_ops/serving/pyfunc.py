"""The MLflow model, as code: no pickle, only this file and a parameter set.

MLflow runs this file when it loads a version. It needs ``slc_ops`` installed beside it, and nothing of
Airflow or Great Expectations.
"""

from typing import Any

import mlflow  # noqa: TID253 - MLflow itself runs this file
import pandas as pd  # noqa: TID253 - and hands it pandas


class CorrectionModel(mlflow.pyfunc.PythonModel):  # type: ignore[misc]  # MLflow carries no types
    """``item_id`` and ``logit`` (or ``probability``) in, ``p_corrected`` out, in the same order.

    With a column ``backbone_version``, rows of another backbone than the correction was fitted for follow the
    deployment's rule: the frozen probability unless it says otherwise.
    """

    def load_context(self, context: Any) -> None:
        """Read the parameter set, verify its digests and golden vectors; refuse it otherwise."""
        from slc_ops.serving import Corrector

        self.corrector = Corrector.from_directory(context.artifacts["parameters"])

    def predict(
        self, context: Any, model_input: pd.DataFrame, params: dict[str, Any] | None = None
    ) -> pd.DataFrame:
        """Correct a data frame."""
        from slc_ops.serving.frames import correct_frame

        return correct_frame(self.corrector, model_input)


mlflow.models.set_model(CorrectionModel())
