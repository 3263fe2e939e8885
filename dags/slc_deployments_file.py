"""Defines no DAG: turns what is wrong with entries of the deployments file into one import error.

A broken entry must not take the other deployments' DAGs down, and must not vanish in silence either.
"""

from slc_ops.airflow import refuse_broken_deployments

refuse_broken_deployments()
