"""The DAGs that people start from a form: backfill, promotion and rollback."""

from slc_ops.airflow import dags

globals().update(dags("operations"))
