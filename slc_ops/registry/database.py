"""The ledger's database: SQLite (embedded) or PostgreSQL (production); writers create and migrate it.

SQLite runs in WAL mode, waits for a busy database and starts every writing transaction with ``BEGIN
IMMEDIATE``: a transaction that reads first and writes later would otherwise fail when another one writes in
between. Each use opens a connection: Airflow tasks fork, and two processes must not share one.
"""

import os
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from sqlalchemy import Connection, Engine, NullPool, StaticPool, create_engine, event, inspect, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from slc_ops.base.addresses import without_secrets
from slc_ops.base.digests import lock_number
from slc_ops.base.errors import RegistryError, StorageError
from slc_ops.base.locks import create_once, file_lock
from slc_ops.registry.tables import metadata

SCHEMA_TABLE = "slc_ledger_schema"
SCHEMA = "0001"
BUSY_SECONDS = 30.0


class Database:
    """Transactions and named locks on the ledger's database.

    With ``create`` the database is created and migrated if necessary. Without it nothing is created: if there
    is no ledger, :attr:`present` is False, reads return nothing, and writes raise :class:`RegistryError`.
    """

    def __init__(self, address: str, *, create: bool = True) -> None:
        self.url = _url(address)
        self._copy: TemporaryDirectory[str] | None = None
        self._file = Path(str(self.url.database)) if self.url.get_backend_name() == "sqlite" else None
        if create and self._file is not None:
            create_once(
                self._file, lambda path: _upgrade(_engine(self.url.set(database=str(path))), self.url)
            )
        self.present = self._file is None or _exists(self._file)
        self.engine = _engine(self._for_reading() if not create else self.url) if self.present else _empty()
        if create:
            self._migrate()
        elif self.present and (found := self._schema()) != SCHEMA:
            if found is not None:
                raise RegistryError(
                    f"the ledger {self.shown} has the schema {found}, this slc_ops needs {SCHEMA}; "
                    "use the version that wrote it, or a newer one"
                )
            self.present, self.engine = False, _empty()

    def _for_reading(self) -> URL:
        """Return the URL; on a read-only disk that of a copy, because SQLite's WAL mode writes files."""
        if self._file is None or os.access(self._file.parent, os.W_OK):
            return self.url
        self._copy = TemporaryDirectory(prefix="slc-ledger-")
        for suffix in ("", "-wal"):
            if (source := Path(f"{self._file}{suffix}")).exists():
                shutil.copyfile(source, Path(self._copy.name, f"{self._file.name}{suffix}"))
        return self.url.set(database=str(Path(self._copy.name, self._file.name)))

    @property
    def shown(self) -> str:
        """The address without secrets."""
        return _shown(self.url)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Open a read-only transaction."""
        with _typed(self.url), self.engine.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Open a transaction that may write; on SQLite it locks the database from its first statement."""
        self._check_present()
        with _typed(self.url), self.engine.connect() as connection:
            connection.execution_options(slc_writes=True)
            with connection.begin():
                yield connection

    @contextmanager
    def lock(self, name: str, seconds: float = BUSY_SECONDS) -> Iterator[None]:
        """Hold a named lock; the operating system or PostgreSQL releases it when the holder dies."""
        self._check_present()
        if self._file is None:
            with _typed(self.url), _advisory_lock(self.engine, name, seconds):
                yield
            return
        with ExitStack() as stack:
            try:
                stack.enter_context(file_lock(Path(f"{self._file}.locks", name), seconds))
            except TimeoutError:
                raise _too_long(name, seconds) from None
            yield

    def _check_present(self) -> None:
        if not self.present:
            raise RegistryError(f"there is no ledger {self.shown}; a refresh makes it")
        if self._copy is not None:
            raise StorageError(f"the ledger {self.shown} cannot be changed: its disk is read-only")

    def _migrate(self) -> None:
        """Migrate the tables to this code's schema."""
        if self._schema() == SCHEMA:
            return
        with self.lock("schema"):
            if self._schema() != SCHEMA:
                _upgrade(self.engine, self.url)

    def _schema(self) -> str | None:
        with self.reading() as connection:
            if not inspect(connection).has_table(SCHEMA_TABLE):
                return None
            # The statement contains only our own constant.
            found = connection.execute(text(f"SELECT version_num FROM {SCHEMA_TABLE}")).scalar()  # noqa: S608 - a constant
            return None if found is None else str(found)


def _upgrade(engine: Engine, url: URL) -> None:
    """Run the migrations, all in one transaction."""
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    config = Config()
    config.set_main_option("script_location", "slc_ops.registry:migrations")
    with _typed(url), engine.connect() as connection:
        connection.execution_options(slc_writes=True)
        with connection.begin():
            config.attributes["connection"] = connection
            try:
                command.upgrade(config, SCHEMA)
            except CommandError as error:
                raise RegistryError(f"cannot migrate the ledger {_shown(url)}: {error}") from None


def _exists(file: Path) -> bool:
    try:
        return file.stat().st_size > 0
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise StorageError(f"cannot read the ledger {file}: {error.strerror}") from None


def _empty() -> Engine:
    """Return an empty ledger in memory."""
    engine = create_engine("sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False})
    metadata.create_all(engine)
    return engine


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
    raise RegistryError(
        f"the ledger needs sqlite:///PATH or postgresql://USER@HOST/DATABASE; found {_shown(url)}"
    )


def _engine(url: URL) -> Engine:
    if url.get_backend_name() != "sqlite":
        return create_engine(url, poolclass=NullPool, connect_args={"connect_timeout": 10})
    engine = create_engine(url, poolclass=NullPool, connect_args={"timeout": BUSY_SECONDS})

    @event.listens_for(engine, "connect")
    def _prepare(connection: object, record: object) -> None:
        connection.isolation_level = None  # type: ignore[attr-defined] # SQLite  # SQLAlchemy sends BEGIN, below
        for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
            connection.execute(f"PRAGMA {pragma}")  # type: ignore[attr-defined] # SQLite

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get("slc_writes")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


@contextmanager
def _typed(url: URL) -> Iterator[None]:
    try:
        yield
    except (SQLAlchemyError, sqlite3.Error) as error:  # sqlite3: while preparing a connection
        cause = str(getattr(error, "orig", None) or error).splitlines()[0]
        raise RegistryError(without_secrets(f"the ledger {_shown(url)} refused: {cause}")) from error


def _shown(url: URL) -> str:
    return without_secrets(url.render_as_string(hide_password=True))


@contextmanager
def _advisory_lock(engine: Engine, name: str, seconds: float) -> Iterator[None]:
    number = lock_number(f"slc:{name}")
    with engine.connect() as connection:
        connection.execution_options(isolation_level="AUTOCOMMIT")
        deadline = time.monotonic() + seconds
        while not connection.execute(text("SELECT pg_try_advisory_lock(:n)"), {"n": number}).scalar():
            if time.monotonic() > deadline:
                raise _too_long(name, seconds)
            time.sleep(0.01)
        yield  # closing the connection, which has no pool, releases the lock


def _too_long(name: str, seconds: float) -> RegistryError:
    return RegistryError(
        f"waited {seconds:.0f} s for the ledger's lock {name!r}: another process holds it; "
        "try again when it has finished"
    )
