"""One weekly refresh DAG per usable entry of the deployments file."""

from slc_ops.airflow import usable_deployments, weekly_refresh

for name, deployment in usable_deployments().items():
    globals()[f"slc_weekly_refresh__{name}"] = weekly_refresh(name, deployment)
