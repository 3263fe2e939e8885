"""What a service checks before it starts: every setting it was given must be usable, or nothing starts.

The variables decide: a service that has a database's address needs that database, one that has a broker's
address needs the broker. The message names the setting, the exit code is 2.
"""

import os
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from slc_ops.base.passwords import check_secrets
from slc_ops.production import schemas
from slc_ops.production.stores import (
    check_broker,
    check_bucket,
    check_database,
    check_schema,
    check_space,
    retry_until_ready,
)
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
    """Secrets, volumes, deployments file: all that can be said without another server."""
    check_secrets(environment)
    megabytes = ServiceVariables.read(environment).min_free_mb
    for name in VOLUMES:
        if name in environment:
            check_space(Path(environment[name]), megabytes)
    check_space(Path(tempfile.gettempdir()), min(megabytes, 64))
    if "SLC_OPS_DEPLOYMENTS" in environment:
        from slc_ops.settings.deployments import read_deployments

        read_deployments(Path(environment["SLC_OPS_DEPLOYMENTS"]))


def check_servers(environment: Mapping[str, str]) -> None:
    """Databases of the right version, the broker, the artifact store."""
    for name, wanted in SCHEMAS.items():
        for schema in wanted if name in environment else ():
            retry_until_ready(partial(check_schema, environment[name], schema))
    if RESULTS in environment:
        retry_until_ready(partial(check_database, environment[RESULTS]))
    if "AIRFLOW__CELERY__BROKER_URL" in environment:
        retry_until_ready(partial(check_broker, environment["AIRFLOW__CELERY__BROKER_URL"]))
    if "MLFLOW_ARTIFACTS_DESTINATION" in environment:
        destination = environment["MLFLOW_ARTIFACTS_DESTINATION"]
        retry_until_ready(partial(check_bucket, destination, environment.get("MLFLOW_S3_ENDPOINT_URL")))


def write_auth_file(environment: Mapping[str, str]) -> None:
    """MLflow reads the address of its logins from a file only: write it, for this user's eyes only.

    A checked password is remembered for a minute: checking one costs half a second of PBKDF2 per request.
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
