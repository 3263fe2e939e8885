"""Serving: apply the champion's correction. Needs numpy and pyarrow, not Airflow, GX, pandas or MLflow."""

from slc_ops.serving.corrector import Corrector

__all__ = ["Corrector"]
