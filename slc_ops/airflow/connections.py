"""Airflow's connections, for the packages that know nothing of Airflow."""

from slc_ops.settings.connections import Connection


def find_connection(name: str) -> Connection | None:
    """A connection from Airflow's environment, secrets backends or database; None where there is none."""
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
