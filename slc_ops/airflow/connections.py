"""Airflow connections for packages that do not import Airflow."""

from slc_ops.settings.connections import Connection


def find_connection(name: str) -> Connection | None:
    """Return a connection from Airflow's environment, secrets backends or database; None if missing."""
    from airflow.sdk import Connection as AirflowConnection
    from airflow.sdk.exceptions import AirflowNotFoundException

    try:
        found = AirflowConnection.get(name)
    except AirflowNotFoundException:
        return None
    return Connection(
        found.conn_id,
        found.conn_type or "",
        found.host,
        found.port,
        found.schema,
        found.login,
        found.password,
        found.extra_dejson,
    )
