"""Checks before a service starts: every given setting must be usable, otherwise it exits with code 2.

The variables select the checks: a service with a database's address needs that database, one with a broker's
address needs the broker. The message names the setting.
"""

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from slc_ops.base.passwords import check_secrets
from slc_ops.production import schemas
from slc_ops.production.stores import check_broker, check_bucket, check_schema, check_space, connect
from slc_ops.settings.environment import ServiceVariables

SCHEMAS = {
    "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": (schemas.AIRFLOW, schemas.LOGINS),
    "MLFLOW_BACKEND_STORE_URI": (schemas.MLFLOW, schemas.MLFLOW_LOGINS),
    "SLC_OPS_LEDGER_URL": (schemas.LEDGER,),
}
RESULTS = "AIRFLOW__CELERY__RESULT_BACKEND"
VOLUMES = ("SLC_OPS_HOME", "AIRFLOW__LOGGING__BASE_LOG_FOLDER")
AUTH_FILE = "MLFLOW_AUTH_CONFIG_PATH"


def check_surroundings(environment: Mapping[str, str]) -> None:
    """Check secrets, volumes and the deployments file, which need no other server."""
    check_secrets(environment)
    megabytes = ServiceVariables.read(environment).min_free_mb
    for name in VOLUMES:
        if name in environment:
            check_space(Path(environment[name]), megabytes)
    check_space(Path(tempfile.gettempdir()), min(megabytes, 64))
    if "SLC_OPS_DEPLOYMENTS" in environment:
        from slc_ops.settings.deployments_file import read_deployments

        read_deployments(Path(environment["SLC_OPS_DEPLOYMENTS"]))


def check_servers(environment: Mapping[str, str]) -> None:
    """Check the databases' versions, the broker and the artifact store."""
    for name, wanted in SCHEMAS.items():
        for schema in wanted if name in environment else ():
            check_schema(environment[name], schema)
    if RESULTS in environment:
        connect(environment[RESULTS]).close()
    check_broker_and_artifacts(environment)


def check_broker_and_artifacts(environment: Mapping[str, str], *, create: bool = False) -> None:
    """Check the broker and the artifact store, whose bucket is created on request."""
    if "AIRFLOW__CELERY__BROKER_URL" in environment:
        check_broker(environment["AIRFLOW__CELERY__BROKER_URL"])
    if "MLFLOW_ARTIFACTS_DESTINATION" in environment:
        endpoint = environment.get("MLFLOW_S3_ENDPOINT_URL")
        check_bucket(environment["MLFLOW_ARTIFACTS_DESTINATION"], endpoint, create=create)


def write_auth_file(environment: Mapping[str, str]) -> None:
    """Write MLflow's login configuration, which it reads only from a file, with access for this user only.

    Verified passwords are cached for a minute, because PBKDF2 costs half a second per request.
    """
    from slc_ops.base.files import write_text

    if AUTH_FILE not in environment:
        return
    os.umask(0o077)
    lines = [
        "[mlflow]",
        f"database_uri = {environment['MLFLOW_BACKEND_STORE_URI']}",
        "default_permission = READ",
        "admin_username = admin",
        "authorization_function = mlflow.server.auth:authenticate_request_basic_auth",
        "auth_cache_ttl_seconds = 60",
    ]
    write_text(Path(environment[AUTH_FILE]), "\n".join(lines) + "\n")
