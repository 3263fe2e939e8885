"""Defines no DAG: turns what is wrong with the deployments file into one import error in Airflow's UI.

A broken entry must not take the other deployments' DAGs down, and must not vanish in silence either.
"""

from slc_ops.airflow import weekly_refreshes
from slc_ops.base.errors import SettingsError
from slc_ops.settings.deployments import Places, load_deployments

load_deployments(Places.from_environment().deployments_file)
if failures := weekly_refreshes()[1]:
    raise SettingsError("; ".join(failures))
