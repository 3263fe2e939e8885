"""The DAGs that people start from a form: backfill, promotion and rollback."""

from slc_ops.airflow import backfill_dag, promote_dag, rollback_dag

slc_backfill = backfill_dag()
slc_promote = promote_dag()
slc_rollback = rollback_dag()
