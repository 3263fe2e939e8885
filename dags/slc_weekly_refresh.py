"""One weekly refresh DAG per usable entry of the deployments file."""

from slc_ops.airflow import weekly_refreshes

for name, dag in weekly_refreshes()[0].items():
    globals()[f"slc_weekly_refresh__{name}"] = dag
