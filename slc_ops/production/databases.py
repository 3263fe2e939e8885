"""One PostgreSQL server, one database and one user per owner: made when missing, passwords kept current."""

from collections.abc import Iterable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from slc_ops.production.stores import connect, plain_url

if TYPE_CHECKING:
    import psycopg


def ensure_databases(admin_url: str, urls: Iterable[str]) -> None:
    """Make what the addresses name; nobody but its user may enter a database."""
    with connect(admin_url) as connection:
        for url in urls:
            parts = urlsplit(plain_url(url))
            user, password = str(parts.username), str(parts.password)
            _ensure_user(connection, user, password)
            _ensure_database(connection, parts.path.strip("/"), user)


def _ensure_user(connection: "psycopg.Connection", user: str, password: str) -> None:
    from psycopg import sql

    found = connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [user]).fetchone()
    if not found:
        connection.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(user)))
    # Sent as its SCRAM verifier: the server may log the statement.
    verifier = connection.pgconn.encrypt_password(password.encode(), user.encode(), b"scram-sha-256").decode()
    connection.execute(
        sql.SQL("ALTER ROLE {} PASSWORD {}").format(sql.Identifier(user), sql.Literal(verifier))
    )


def _ensure_database(connection: "psycopg.Connection", name: str, owner: str) -> None:
    from psycopg import sql

    found = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name]).fetchone()
    if not found:
        connection.execute(
            sql.SQL("CREATE DATABASE {} OWNER {}").format(sql.Identifier(name), sql.Identifier(owner))
        )
    connection.execute(sql.SQL("REVOKE ALL ON DATABASE {} FROM PUBLIC").format(sql.Identifier(name)))
