"""``slc_clean``: run ``slc-ops clean`` every night for deployments with their own retention settings."""

import logging

from airflow.sdk import DAG, CronTriggerTimetable, task

from slc_ops.airflow.retries import default_args
from slc_ops.settings.deployments import Deployment, Installation, read_deployments

log = logging.getLogger(__name__)

DOC = """\
### Retention

Every night, for each deployment whose entry sets `keep_windows` or `keep_refreshes`: windows and refreshes
beyond that are removed from disk. What the next refresh, a rollback or a refresh at work needs stays, and so
do the ledger and MLflow. `slc-ops clean --deployment NAME --dry-run` says beforehand what would go.
"""


def says_what_it_keeps(deployment: Deployment) -> bool:
    """Return True if the entry sets its own retention; defaults never remove anything."""
    return bool({"keep_windows", "keep_refreshes"} & deployment.model_fields_set)


@task
def clean() -> dict[str, int]:
    """Remove expired files; a failure in one deployment does not affect the others."""
    from slc_ops.base.errors import SlcError
    from slc_ops.refresh.retention import removable, remove

    installation = Installation.from_environment()
    freed, failures = {}, []
    for name, deployment in read_deployments(installation.deployments_file)[0].items():
        if not says_what_it_keeps(deployment):
            continue
        try:
            found = removable(installation, name)
            freed[name] = found.bytes
            remove(found)
        except SlcError as error:
            failures.append(error)
            log.error("%s was not cleaned: %s", name, error)
        else:
            log.info("%s: %d windows and %d refreshes removed, %d bytes", name,
                     len(found.windows), len(found.refreshes), found.bytes)  # fmt: skip
    if failures:
        raise failures[0]
    return freed


def clean_dag() -> DAG:
    """Build ``slc_clean``."""
    with DAG(
        dag_id="slc_clean",
        dag_display_name="Retention",
        description="Removes windows and refreshes beyond what deployments keep",
        schedule=CronTriggerTimetable("30 3 * * *", timezone="UTC"),
        catchup=False,
        max_active_runs=1,
        default_args=default_args("slc-ops"),
        tags=["slc", "upkeep"],
        doc_md=DOC,
    ) as dag:
        clean()
    return dag
