"""A Flight SQL server on loopback: hand-written protocol messages over DuckDB.

It supports queries with parameters: prepare, bind, execute, fetch, close. All fields of the messages are
length-delimited, so a message is a list of (number, bytes).
"""

import base64
import time
from typing import Any

import duckdb
import pyarrow as pa
from pyarrow import flight

TYPE = "type.googleapis.com/arrow.flight.protocol.sql."


def packed(*fields: tuple[int, bytes]) -> bytes:
    """A message of byte fields."""
    return b"".join(bytes([number << 3 | 2]) + _size(len(value)) + value for number, value in fields)


def unpacked(message: bytes) -> dict[int, bytes]:
    """Its byte fields by number."""
    found, at = {}, 0
    while at < len(message):
        number, kind = message[at] >> 3, message[at] & 7
        at += 1
        size = shift = 0
        while True:
            byte = message[at]
            at, size, shift = at + 1, size | (byte & 127) << shift, shift + 7
            if byte < 128:
                break
        if kind == 2:
            found[number], at = message[at : at + size], at + size
    return found


def _size(number: int) -> bytes:
    head = b""
    while number > 127:
        head, number = head + bytes([number & 127 | 128]), number >> 7
    return head + bytes([number])


def command(message: bytes) -> tuple[str, dict[int, bytes]]:
    """The name and fields of a command in its envelope."""
    envelope = unpacked(message)
    return envelope[1].decode().rpartition(".")[2], unpacked(envelope[2])


TOKEN = "Bearer of-this-server"


class Known(flight.ServerMiddleware):  # type: ignore[misc]  # pyarrow has no types
    """Return a token to clients that have logged in."""

    def sending_headers(self) -> dict[str, str]:
        """Add the token to every answer."""
        return {"authorization": TOKEN}


class Login(flight.ServerMiddlewareFactory):  # type: ignore[misc]  # pyarrow has no types
    """Accept user and password first, then the token."""

    def __init__(self, wanted: str) -> None:
        self.wanted = "Basic " + base64.b64encode(wanted.encode()).decode()

    def start_call(self, info: Any, headers: dict[str, list[str]]) -> Known:
        """Check the header of a call."""
        if (headers.get("authorization") or [""])[0] not in (self.wanted, TOKEN):
            raise flight.FlightUnauthenticatedError("who are you?")
        return Known()


class Handshake(flight.ServerAuthHandler):  # type: ignore[misc]  # pyarrow has no types
    """Authentication by headers only."""

    def authenticate(self, outgoing: Any, incoming: Any) -> None:
        """Nothing to do: the header was checked."""

    def is_valid(self, token: Any) -> str:
        """Accept no other token."""
        return ""


class FlightSqlServer(flight.FlightServerBase):  # type: ignore[misc]  # pyarrow has no types
    """Answer queries on ``answers``; ``asked`` records the statements and their parameters.

    ``pause`` delays each answer by some seconds.
    """

    def __init__(self, answers: pa.Table, login: str) -> None:
        super().__init__("grpc://127.0.0.1:0", Handshake(), middleware={"login": Login(login)})
        self.database = duckdb.connect()
        self.database.execute("SET TimeZone = 'UTC'")
        self.database.register("given", answers)
        self.database.execute("CREATE TABLE answers AS SELECT * FROM given")
        self.database.unregister("given")
        self.pause = 0.0
        self.asked: list[tuple[str, list[Any]]] = []

    def do_action(self, context: Any, action: Any) -> Any:
        """Prepare or close a statement."""
        name, fields = command(action.body.to_pybytes())
        if name != "ActionCreatePreparedStatementRequest":
            return []
        self.asked.append((fields[1].decode(), []))
        try:
            self.database.execute(f"EXPLAIN {fields[1].decode().replace('?', 'NULL')}")
        except duckdb.Error as error:
            raise pa.ArrowInvalid(str(error)) from None
        result = packed((1, str(len(self.asked) - 1).encode()))
        return [packed((1, f"{TYPE}ActionCreatePreparedStatementResult".encode()), (2, result))]

    def do_put(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        """Bind a statement's parameters."""
        _, fields = command(descriptor.command)
        self.asked[int(fields[1])][1].extend(reader.read_all().to_pylist()[0].values())

    def get_flight_info(self, context: Any, descriptor: Any) -> Any:
        """The location of the rows of a statement: this server."""
        _, fields = command(descriptor.command)
        time.sleep(self.pause)
        schema = self._rows(int(fields[1])).schema
        return flight.FlightInfo(schema, descriptor, [flight.FlightEndpoint(fields[1], [])], -1, -1)

    def do_get(self, context: Any, ticket: Any) -> Any:
        """The rows of a statement."""
        return flight.RecordBatchStream(self._rows(int(ticket.ticket)))

    def _rows(self, number: int) -> pa.Table:
        statement, values = self.asked[number]
        with self.database.cursor() as cursor:
            return cursor.sql(statement, params=values).to_arrow_table()
