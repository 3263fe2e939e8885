"""Defines no DAG: reports invalid entries of the deployments file as one import error.

A broken entry must not take the other deployments' DAGs down, and must not vanish in silence either.
"""

from slc_ops.airflow import refuse_broken_deployments

refuse_broken_deployments()
