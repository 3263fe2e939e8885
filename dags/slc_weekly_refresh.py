"""One weekly refresh DAG per usable entry of the deployments file."""

from slc_ops.airflow import dags

globals().update(dags("refreshes"))
