"""The standing controls, monthly: real data on which the answer is known."""

from slc_ops.airflow import dags

globals().update(dags("controls"))
