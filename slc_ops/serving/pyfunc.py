"""The MLflow model as code: no pickle, only this file and a parameter set.

MLflow runs this file when it loads a version. It needs ``slc_ops`` to be installed, but neither Airflow nor
Great Expectations.
"""

from typing import Any

import mlflow  # noqa: TID253 - MLflow itself runs this file
import pandas as pd  # noqa: TID253 - and hands it pandas


class CorrectionModel(mlflow.pyfunc.PythonModel):  # type: ignore[misc]  # MLflow carries no types
    """Correct ``item_id`` and ``logit`` (or ``probability``) to ``p_corrected``, in the same order.

    With a column ``backbone_version``, rows of another backbone than that of the fit follow the deployment's
    rule, by default the frozen probability.
    """

    def load_context(self, context: Any) -> None:
        """Read the parameter set and verify its digests and golden vectors; raise if they differ."""
        from slc_ops.serving import Corrector

        self.corrector = Corrector.from_directory(context.artifacts["parameters"])

    def predict(
        self, context: Any, model_input: pd.DataFrame, params: dict[str, Any] | None = None
    ) -> pd.DataFrame:
        """Correct a data frame."""
        from slc_ops.serving.frames import correct_frame

        return correct_frame(self.corrector, model_input)


mlflow.models.set_model(CorrectionModel())
