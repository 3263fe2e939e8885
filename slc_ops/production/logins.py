"""The first logins: an administrator of Airflow and of MLflow, and the user under which tasks reach MLflow.

Their passwords are those of the environment, also when they exist already: rotating one is changing it there
and running init again.
"""

ADMIN = "admin"


def ensure_airflow_admin(password: str) -> None:
    """Airflow's administrator, in the database of the FAB auth manager."""
    from airflow.providers.fab.auth_manager.cli_commands.utils import get_application_builder
    from werkzeug.security import check_password_hash

    from slc_ops.base.errors import SlcError

    with get_application_builder() as builder:
        security = builder.sm
        user = security.find_user(username=ADMIN)
        if user is None:
            role = security.find_role("Admin")
            if not security.add_user(ADMIN, "Admin", "Admin", "admin@localhost", role, password):
                raise SlcError("Airflow did not create its administrator; its own log above says why")
        elif not check_password_hash(user.password, password):
            security.reset_password(user.id, password)


def ensure_mlflow_users(url: str, users: dict[str, str]) -> None:
    """MLflow's users by name and password; only the administrator may do everything."""
    from mlflow.server.auth.sqlalchemy_store import SqlAlchemyStore

    store = SqlAlchemyStore()
    store.init_db(url)
    for name, password in users.items():
        if not store.has_user(name):
            store.create_user(name, password, is_admin=name == ADMIN)
        elif not store.authenticate_user(name, password):
            store.update_user(name, password=password)
    store.engine.dispose()
