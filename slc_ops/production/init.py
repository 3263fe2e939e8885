"""Initialise empty servers; a repeated run changes only missing or outdated parts.

The first logins are an administrator of Airflow and of MLflow, and the MLflow user of the tasks. Passwords
always follow the environment: to rotate one, change it there and run init again.
"""

import subprocess
from collections.abc import Callable, Mapping

from slc_ops.base.errors import RegistryError, SettingsError, SlcError
from slc_ops.production.checks import check_broker_and_artifacts, check_servers, check_surroundings
from slc_ops.production.stores import ensure_databases

AIRFLOW_DATABASE = "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"
MLFLOW_DATABASE = "MLFLOW_BACKEND_STORE_URI"
LEDGER_DATABASE = "SLC_OPS_LEDGER_URL"
CELERY_DATABASE = "AIRFLOW__CELERY__RESULT_BACKEND"
DATABASES = (AIRFLOW_DATABASE, MLFLOW_DATABASE, LEDGER_DATABASE, CELERY_DATABASE)
NEEDED = (
    "POSTGRES_ADMIN_URL",
    *DATABASES,
    "AIRFLOW__CELERY__BROKER_URL",
    "AIRFLOW__CORE__FERNET_KEY",
    "AIRFLOW__API__SECRET_KEY",
    "AIRFLOW__API_AUTH__JWT_SECRET",
    "AIRFLOW_ADMIN_PASSWORD",
    "MLFLOW_ARTIFACTS_DESTINATION",
    "MLFLOW_AUTH_ADMIN_PASSWORD",
    "MLFLOW_TRACKING_USERNAME",
    "MLFLOW_TRACKING_PASSWORD",
    "MLFLOW_FLASK_SERVER_SECRET_KEY",
)


def initialise(
    environment: Mapping[str, str], tell: Callable[[str], None], *, only_databases: bool = False
) -> None:
    """Check settings, create databases, migrate schemas, create logins; stop at the first error.

    ``only_databases`` stops after users and empty databases, as the target of a restored dump.
    """
    missing = [name for name in NEEDED if not environment.get(name)]
    if missing:
        raise SettingsError(
            f"{', '.join(missing)} not set; docker-compose.yaml sets them from .env (make env)"
        )
    tell("checking secrets and volumes")
    check_surroundings(environment)
    tell("checking the broker and the artifact store")
    check_broker_and_artifacts(environment, create=True)
    tell("databases and their users")
    ensure_databases(environment["POSTGRES_ADMIN_URL"], [environment[name] for name in DATABASES])
    if only_databases:
        return
    tell("schema of the ledger")
    _migrate_ledger(environment[LEDGER_DATABASE])
    tell("schema of Airflow")
    _migrate_airflow()
    tell("schema of MLflow")
    _migrate_mlflow(environment[MLFLOW_DATABASE])
    tell("logins")
    users = {
        ADMIN: environment["MLFLOW_AUTH_ADMIN_PASSWORD"],
        environment["MLFLOW_TRACKING_USERNAME"]: environment["MLFLOW_TRACKING_PASSWORD"],
    }
    ensure_mlflow_users(environment[MLFLOW_DATABASE], users)
    ensure_airflow_admin(environment["AIRFLOW_ADMIN_PASSWORD"])
    check_servers(environment)
    tell("done")


def _migrate_ledger(url: str) -> None:
    from slc_ops.registry.ledger import Ledger

    try:
        Ledger(url)
    except RegistryError as error:
        raise SettingsError(f"{error}; was the ledger written by a newer version of slc_ops?") from None


def _migrate_airflow() -> None:
    code = subprocess.run(["airflow", "db", "migrate"], check=False).returncode
    if code:
        raise SlcError(f"'airflow db migrate' ended with code {code}; its output above gives the reason")


def _migrate_mlflow(url: str) -> None:
    """Migrate as ``mlflow db upgrade`` does, without the password in the process list."""
    from alembic.util import CommandError
    from mlflow.store.db import utils

    engine = utils.create_sqlalchemy_engine_with_retry(url)
    try:
        if utils._is_empty_database(engine):
            utils._safe_initialize_tables(engine)
        else:
            utils._upgrade_db(engine)
    except CommandError as error:
        raise SettingsError(f"MLflow's schema cannot be migrated: {error}") from None
    finally:
        engine.dispose()


ADMIN = "admin"


def ensure_airflow_admin(password: str) -> None:
    """Create Airflow's administrator in the FAB auth manager's database, or update the password."""
    from airflow.providers.fab.auth_manager.cli_commands.utils import get_application_builder
    from werkzeug.security import check_password_hash

    with get_application_builder() as builder:
        security = builder.sm
        user = security.find_user(username=ADMIN)
        if user is None:
            role = security.find_role("Admin")
            if not security.add_user(ADMIN, "Admin", "Admin", "admin@localhost", role, password):
                raise SlcError("Airflow did not create its administrator; its own log above gives the reason")
        elif not check_password_hash(user.password, password):
            security.reset_password(user.id, password)


def ensure_mlflow_users(url: str, users: dict[str, str]) -> None:
    """Create MLflow's users or update their passwords; only ``admin`` is an administrator."""
    from mlflow.server.auth.sqlalchemy_store import SqlAlchemyStore

    store = SqlAlchemyStore()
    store.init_db(url)
    for name, password in users.items():
        if not store.has_user(name):
            store.create_user(name, password, is_admin=name == ADMIN)
        elif not store.authenticate_user(name, password):
            store.update_user(name, password=password)
    store.engine.dispose()
