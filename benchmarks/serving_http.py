"""``slc-ops serve`` beside a bare Starlette application with a dict, ``mlflow models serve`` and LitServe.

    python -m benchmarks.serving_http [--items 1000000] [--litserve PYTHON]

One process each, the same parameter set, loopback, eight connections that ask without pause. Figures are rows
per second of processor time of the *server* (all its processes), so that neighbours on the machine and the
client's own work do not count; ratios are of one run. The latency at 500 requests a second is by the clock.
``--litserve`` names a Python that has litserve; without it LitServe is left out.
"""

import argparse
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.serving_speed import sample, write_set
from slc_ops.parameters.parameter_set import ParameterSet
from slc_ops.registry.model import write_model

CONNECTIONS = 8
BARE = """
import sys, math, orjson, uvicorn, pyarrow.parquet as pq
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route
table = pq.read_table(sys.argv[1] + "/item.parquet", columns=["id", "offset"])
offsets = dict(zip(table["id"].to_pylist(), table["offset"].to_pylist()))
async def correct(request):
    asked = orjson.loads(await request.body())
    rows = zip(asked["item_id"], asked["logit"])
    found = [1 / (1 + math.exp(-(1.1 * l + 0.1 + offsets.get(i, 0.0)))) for i, l in rows]
    return Response(orjson.dumps({"probability": found}), media_type="application/json")
async def ping(request):
    return Response(b"{}")
app = Starlette(routes=[Route("/correct", correct, methods=["POST"]), Route("/ping", ping)])
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[2]), log_level="warning", access_log=False)
"""
LIT = """
import sys, math, litserve, pyarrow.parquet as pq
class Api(litserve.LitAPI):
    def setup(self, device):
        table = pq.read_table(sys.argv[1] + "/item.parquet", columns=["id", "offset"])
        self.offsets = dict(zip(table["id"].to_pylist(), table["offset"].to_pylist()))
    def decode_request(self, request):
        return request
    def predict(self, asked):
        rows = zip(asked["item_id"], asked["logit"])
        return [1 / (1 + math.exp(-(1.1 * l + 0.1 + self.offsets.get(i, 0.0)))) for i, l in rows]
    def encode_response(self, found):
        return {"probability": found}
if __name__ == "__main__":
    litserve.LitServer(Api(api_path="/correct"), accelerator="cpu", workers_per_device=1).run(
        host="127.0.0.1", port=int(sys.argv[2]), num_api_servers=1, log_level="warning",
        generate_client_file=False)
"""


@contextmanager
def started(command: list[str], port: int, ready: str) -> Iterator[int]:
    """A server in a process group of its own; yields the group."""
    process = subprocess.Popen(
        command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        for _ in range(1200):
            try:
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
                connection.request("GET", ready)
                if connection.getresponse().status == 200:
                    break
            except OSError:
                pass
            assert process.poll() is None, f"{command} ended with {process.returncode}"
            time.sleep(0.1)
        yield process.pid
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def used(group: int) -> float:
    """Processor seconds of all processes of a group, ended children included."""
    ticks = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == group:
            ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def request(path: str, kind: str, body: bytes) -> bytes:
    """A whole request as bytes."""
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


class Client:
    """One connection that stays open."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.rest = b""

    def answer(self) -> bytes:
        """The body of the next answer; anything but 200 ends the measurement."""
        while (end := self.rest.find(b"\r\n\r\n")) < 0:
            self.rest += self._more()
        head, self.rest = self.rest[:end].lower(), self.rest[end + 4 :]
        assert head.startswith(b"http/1.1 200"), (head, self.rest)
        size = int(head.partition(b"content-length:")[2].split()[0])
        while len(self.rest) < size:
            self.rest += self._more()
        body, self.rest = self.rest[:size], self.rest[size:]
        return body

    def _more(self) -> bytes:
        chunk = self.socket.recv(1 << 20)
        assert chunk, "the server closed the connection"
        return chunk


def rate(group: int, port: int, requests: list[bytes], rows: int, seconds: float) -> float:
    """Rows per second of the server's processor time."""
    clients = [Client(port) for _ in range(CONNECTIONS)]
    done, before, until = 0, 0.0, 0.0
    for number in range(10**9):
        for k, client in enumerate(clients):
            client.socket.sendall(requests[(number * CONNECTIONS + k) % len(requests)])
        for client in clients:
            client.answer()
        if number == 3:  # warm
            before, done, until = used(group), 0, time.perf_counter() + seconds
        done += len(clients)
        if number > 3 and time.perf_counter() > until:
            break
    for client in clients:
        client.socket.close()
    return done * rows / max(used(group) - before, 0.01)


def latencies(port: int, requests: list[bytes], per_second: int, seconds: float) -> dict[str, float]:
    """Milliseconds from when a request was due to its answer, asked at a steady rate."""
    client, found = Client(port), []
    begin = time.perf_counter()
    for number in range(int(per_second * seconds)):
        due = begin + number / per_second
        while time.perf_counter() < due:
            time.sleep(0)
        client.socket.sendall(requests[number % len(requests)])
        client.answer()
        found.append(time.perf_counter() - due)
    return {f"p{q}_ms": float(np.percentile(found, q) * 1e3) for q in (50, 99)}


def bodies(directory: Path, rows: int) -> dict[str, list[bytes]]:
    """The same rows as JSON columns, as an Arrow stream and as MLflow's data frame."""
    ids, logits, _ = sample(directory)
    found: dict[str, list[bytes]] = {"json": [], "arrow": [], "frame": []}
    for k in range(200):
        part = slice(k * rows, (k + 1) * rows)
        items, values = ids[part].to_pylist(), logits[part].tolist()
        columns = {"item_id": items, "logit": values}
        found["json"].append(request("/correct", "application/json", json.dumps(columns).encode()))
        sink = pa.BufferOutputStream()
        table = pa.table(columns)
        with pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table)
        arrow = "application/vnd.apache.arrow.stream"
        found["arrow"].append(request("/correct", arrow, sink.getvalue().to_pybytes()))
        frame = {
            "dataframe_split": {
                "columns": list(columns),
                "data": [list(row) for row in zip(items, values, strict=True)],
            }
        }
        found["frame"].append(request("/invocations", "application/json", json.dumps(frame).encode()))
    return found


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def main() -> None:
    """Measure one server after the other."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each measurement")
    parser.add_argument("--litserve", metavar="PYTHON")
    given = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="slc-serving-"))
    directory = home / "set"
    write_set(directory, given.items, "text")
    write_model(directory, ParameterSet.read(directory), home / "model")
    one, many = bodies(directory, 1), bodies(directory, 1000)
    result: dict[str, dict[str, float]] = {}
    here = str(Path(sys.executable).parent)
    os.environ["PATH"] = f"{here}:{os.environ['PATH']}"
    servers = {
        "bare": [sys.executable, "-c", BARE, str(directory), "PORT"],
        "slc-ops serve": [f"{here}/slc-ops", "serve", "--params", str(directory), "--port", "PORT"],
        "mlflow models serve": [
            *(sys.executable, "-m", "mlflow", "models", "serve", "--env-manager", "local"),
            *("--model-uri", str(home / "model"), "--workers", "1", "--port", "PORT"),
        ],
    }  # fmt: skip
    if given.litserve:
        (home / "lit.py").write_text(LIT)
        servers["LitServe"] = [given.litserve, str(home / "lit.py"), str(directory), "PORT"]
    for name, command in servers.items():
        port = free_port()
        ready = "/health" if name == "LitServe" else "/ping"
        with started([each.replace("PORT", str(port)) for each in command], port, ready) as group:
            kind = "frame" if name.startswith("mlflow") else "json"
            found = result[name] = {"single": rate(group, port, one[kind], 1, given.seconds)}
            found["batch"] = rate(group, port, many[kind], 1000, given.seconds)
            if name == "slc-ops serve":
                found["single frame"] = rate(group, port, one["frame"], 1, given.seconds)
                found["batch frame"] = rate(group, port, many["frame"], 1000, given.seconds)
                found["batch arrow"] = rate(group, port, many["arrow"], 1000, given.seconds)
                found |= latencies(port, one["json"], 500, given.seconds)
        print(name, {key: round(value, 2) for key, value in found.items()}, flush=True)
    ours = result["slc-ops serve"]
    ratios = {
        f"{key} / {name}": ours[key] / found[key]
        for name, found in result.items()
        for key in ("single", "batch")
        if name != "slc-ops serve"
    } | {"arrow / json": ours["batch arrow"] / ours["batch"]}
    print(json.dumps({name: round(value, 2) for name, value in ratios.items()}, indent=2))


if __name__ == "__main__":
    main()
