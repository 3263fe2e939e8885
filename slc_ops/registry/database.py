"""The ledger's database: SQLite (embedded) or PostgreSQL (production), migrated when it is opened.

SQLite runs in WAL mode, waits for a busy database and begins every writing transaction with
``BEGIN IMMEDIATE``: a transaction that reads first and writes later would otherwise fail when another one
writes in between. Connections are opened per use: an Airflow task is a fork, and a connection that crosses
a fork is shared by two processes.
"""

import hashlib
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection, Engine, NullPool, create_engine, event, inspect, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from slc_ops.base.errors import RegistryError

SCHEMA_TABLE = "slc_ledger_schema"
SCHEMA = "0001"
BUSY_SECONDS = 30.0


class Database:
    """Transactions and named locks on the ledger's database."""

    def __init__(self, address: str) -> None:
        self.url = _url(address)
        self.engine = _engine(self.url)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction that only reads."""
        with _typed(self.url), self.engine.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction that may write; on SQLite it owns the database from its first statement."""
        with _typed(self.url), self.engine.connect() as connection:
            connection.execution_options(slc_writes=True)
            with connection.begin():
                yield connection

    @contextmanager
    def lock(self, name: str, seconds: float = BUSY_SECONDS) -> Iterator[None]:
        """Hold a named lock that the operating system or PostgreSQL releases when the holder dies."""
        if self.url.get_backend_name() == "sqlite":
            with _file_lock(Path(f"{self.url.database}.locks"), name, seconds):
                yield
        else:
            with _typed(self.url), _advisory_lock(self.engine, name, seconds):
                yield

    def migrate(self) -> None:
        """Bring the tables to the schema of this code."""
        if self._schema() == SCHEMA:
            return
        with self.lock("schema"):
            if self._schema() == SCHEMA:
                return
            from alembic import command
            from alembic.config import Config
            from alembic.util import CommandError

            config = Config()
            config.set_main_option("script_location", "slc_ops.registry:migrations")
            with self.writing() as connection:
                config.attributes["connection"] = connection
                try:
                    command.upgrade(config, SCHEMA)
                except CommandError as error:
                    raise RegistryError(f"cannot migrate the ledger {self.url!r}: {error}") from None

    def _schema(self) -> str | None:
        with self.reading() as connection:
            if not inspect(connection).has_table(SCHEMA_TABLE):
                return None
            # A constant of ours is the only thing that is put into the statement.
            found = connection.execute(text(f"SELECT version_num FROM {SCHEMA_TABLE}")).scalar()  # noqa: S608
            return None if found is None else str(found)


def _url(address: str) -> URL:
    try:
        url = make_url(address)
    except ArgumentError:
        raise RegistryError(
            "the ledger's URL cannot be read; expected sqlite:///PATH or postgresql://USER@HOST/DATABASE"
        ) from None
    backend = url.drivername.split("+")[0]
    if backend in ("postgres", "postgresql"):
        return url.set(drivername="postgresql+psycopg")
    if backend == "sqlite" and url.database and url.database != ":memory:":
        return url
    raise RegistryError(f"the ledger needs sqlite:///PATH or postgresql://USER@HOST/DATABASE; found {url!r}")


def _engine(url: URL) -> Engine:
    if url.get_backend_name() != "sqlite":
        return create_engine(url, poolclass=NullPool, connect_args={"connect_timeout": 10})
    Path(str(url.database)).parent.mkdir(parents=True, exist_ok=True)
    engine = create_engine(url, poolclass=NullPool, connect_args={"timeout": BUSY_SECONDS})

    @event.listens_for(engine, "connect")
    def _prepare(connection: object, record: object) -> None:
        connection.isolation_level = None  # type: ignore[attr-defined]  # SQLAlchemy says BEGIN, below
        for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
            connection.execute(f"PRAGMA {pragma}")  # type: ignore[attr-defined]

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get("slc_writes")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


@contextmanager
def _typed(url: URL) -> Iterator[None]:
    try:
        yield
    except SQLAlchemyError as error:
        cause = str(getattr(error, "orig", None) or error).splitlines()[0]
        raise RegistryError(f"the ledger {url!r} refused: {cause}") from error


@contextmanager
def _file_lock(directory: Path, name: str, seconds: float) -> Iterator[None]:
    import fcntl

    directory.mkdir(parents=True, exist_ok=True)
    with (directory / name).open("a") as stream:
        deadline = time.monotonic() + seconds
        while True:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                _wait_or_give_up(name, seconds, deadline)
        yield  # closing the file releases the lock


@contextmanager
def _advisory_lock(engine: Engine, name: str, seconds: float) -> Iterator[None]:
    number = int.from_bytes(hashlib.sha256(f"slc:{name}".encode()).digest()[:8], signed=True)
    with engine.connect() as connection:
        connection.execution_options(isolation_level="AUTOCOMMIT")
        deadline = time.monotonic() + seconds
        while not connection.execute(text("SELECT pg_try_advisory_lock(:n)"), {"n": number}).scalar():
            _wait_or_give_up(name, seconds, deadline)
        yield  # the pool-less connection closes, and PostgreSQL releases the lock


def _wait_or_give_up(name: str, seconds: float, deadline: float) -> None:
    if time.monotonic() > deadline:
        raise RegistryError(
            f"waited {seconds:.0f} s for the ledger's lock {name!r}: another process holds it; "
            "try again when it has finished"
        )
    time.sleep(0.01)
