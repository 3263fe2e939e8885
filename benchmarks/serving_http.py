"""``slc-ops serve`` compared with bare Starlette with a dict, ``mlflow models serve`` and LitServe.

    python -m benchmarks.serving_http [--items 1000000] [--rounds 7] [--litserve PYTHON] [--realtime]

One process each, all running, the same parameter set, loopback, eight connections. The cases alternate in
short rounds, so that other load affects all of them. A figure is the median over the rounds of rows
per second of processor time of the *server* (all its processes); a ratio is the median of the rounds' ratios.

``echo`` is the floor of the transport: the bare server reads the same request and sends a constant answer of
the same size. The latency at 500 requests a second is wall-clock time, with the server on one core;
``--realtime`` gives client and server real-time priority for this part, for machines that do other work.
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
from contextlib import ExitStack, contextmanager
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
ANSWERS = {size: bytes(size) for size in map(int, sys.argv[3:])}
async def echo(request):
    await request.body()
    return Response(ANSWERS[int(request.path_params["size"])], media_type="application/json")
async def ping(request):
    return Response(b"{}")
app = Starlette(routes=[Route("/correct", correct, methods=["POST"]), Route("/ping", ping),
    Route("/echo/{size}", echo, methods=["POST"])])
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[2]), log_config=None, access_log=False, http="httptools",
    loop="uvloop", ws="none", lifespan="off", server_header=False, proxy_headers=False, timeout_keep_alive=75)
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
    """Start a server in its own process group; yield the group."""
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
    """CPU time of all threads of a group, in nanosecond resolution."""
    total = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(path.read_text().rpartition(")")[2].split()[2]) == group:
                times = [each.read_text() for each in path.parent.glob("task/*/schedstat")]
                total += sum(int(each.split()[0]) for each in times)
        except OSError:
            continue
    return total / 1e9


def request(path: str, kind: str, body: bytes) -> bytes:
    """A complete request as bytes."""
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


class Client:
    """One persistent connection."""

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


class Case:
    """One server, one kind of request, eight connections that send without pause."""

    def __init__(self, group: int, port: int, requests: list[bytes], rows: int) -> None:
        self.group, self.port, self.requests, self.rows, self.number = group, port, requests, rows, 0

    def rate(self, seconds: float) -> float:
        """Rows per second of the server's processor time, in one round."""
        clients = [Client(self.port) for _ in range(CONNECTIONS)]
        warm = time.perf_counter() + seconds / 4
        while time.perf_counter() < warm:
            self._ask(clients)
        done, before, until = 0, used(self.group), time.perf_counter() + seconds
        while time.perf_counter() < until:
            self._ask(clients)
            done += CONNECTIONS
        rate = done * self.rows / max(used(self.group) - before, 1e-3)
        for client in clients:
            client.socket.close()
        return rate

    def _ask(self, clients: list[Client]) -> None:
        for client in clients:
            client.socket.sendall(self.requests[self.number % len(self.requests)])
            self.number += 1
        for client in clients:
            client.answer()


def latencies(
    group: int, port: int, requests: list[bytes], seconds: float, realtime: bool
) -> dict[str, float]:
    """Milliseconds from the due time of a request to its answer, at 500 requests a second."""
    client, found, per_second = Client(port), [], 500
    with pinned(group, realtime):
        begin = time.perf_counter() + 0.1
        for number in range(int(per_second * seconds)):
            due = begin + number / per_second
            time.sleep(max(0.0, due - time.perf_counter()))
            client.socket.sendall(requests[number % len(requests)])
            client.answer()
            found.append(time.perf_counter() - due)
    return {f"p{q}_ms": float(np.percentile(found, q) * 1e3) for q in (50, 99)}


@contextmanager
def pinned(group: int, realtime: bool) -> Iterator[None]:
    """Keep the server on the first core and this process on the last one."""
    threads = [int(path.name) for path in Path(f"/proc/{group}/task").iterdir()]
    cores = sorted(os.sched_getaffinity(0))
    for each in threads:
        os.sched_setaffinity(each, cores[:1])
    os.sched_setaffinity(0, cores[-1:])
    kind, priority = (os.SCHED_RR, 10) if realtime else (os.SCHED_OTHER, 0)
    for each in (0, *threads):
        os.sched_setscheduler(each, kind, os.sched_param(priority))
    try:
        yield
    finally:
        for each in (0, *threads):
            os.sched_setscheduler(each, os.SCHED_OTHER, os.sched_param(0))
            os.sched_setaffinity(each, cores)


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
    """A port that was free when checked."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def main() -> None:
    """Start the servers, then measure in rounds."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each case in each round")
    parser.add_argument("--litserve", metavar="PYTHON")
    parser.add_argument("--no-mlflow", action="store_true")
    parser.add_argument("--realtime", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="slc-serving-") as home, ExitStack() as running:
        measure(given, Path(home), running)


def measure(given: argparse.Namespace, home: Path, running: ExitStack) -> None:
    """Print rates, ratios and latencies."""
    directory = home / "set"
    write_set(directory, given.items, "text")
    write_model(directory, ParameterSet.read(directory), home / "model")
    here = str(Path(sys.executable).parent)
    os.environ["PATH"] = f"{here}:{os.environ['PATH']}"
    arrow_bytes, json_bytes = 8_400, 19_500  # the answer to 1,000 rows
    servers = {
        "bare": [sys.executable, "-c", BARE, str(directory), "PORT", str(arrow_bytes), str(json_bytes)],
        "ours": [f"{here}/slc-ops", "serve", "--params", str(directory), "--port", "PORT"],
    }
    if not given.no_mlflow:
        servers["mlflow"] = [
            *(sys.executable, "-m", "mlflow", "models", "serve", "--env-manager", "local"),
            *("--model-uri", str(home / "model"), "--workers", "1", "--port", "PORT"),
        ]
    if given.litserve:
        (home / "lit.py").write_text(LIT)
        servers["litserve"] = [given.litserve, str(home / "lit.py"), str(directory), "PORT"]
    group, port = {}, {}
    for name, command in servers.items():
        port[name] = free_port()
        ready = "/health" if name == "litserve" else "/ping"
        whole = [each.replace("PORT", str(port[name])) for each in command]
        group[name] = running.enter_context(started(whole, port[name], ready))
    one, many = bodies(directory, 1), bodies(directory, 1000)
    echoes = {
        "json": [each.replace(b"/correct", f"/echo/{json_bytes}".encode(), 1) for each in many["json"]],
        "arrow": [each.replace(b"/correct", f"/echo/{arrow_bytes}".encode(), 1) for each in many["arrow"]],
    }
    plan: dict[tuple[str, str], tuple[list[bytes], int]] = {
        ("ours", "batch arrow"): (many["arrow"], 1000),
        ("ours", "single frame"): (one["frame"], 1),
        ("ours", "batch frame"): (many["frame"], 1000),
        ("bare", "echo json"): (echoes["json"], 1000),
        ("bare", "echo arrow"): (echoes["arrow"], 1000),
    }
    for name in servers:
        kind = "frame" if name == "mlflow" else "json"
        plan[name, "single"], plan[name, "batch"] = (one[kind], 1), (many[kind], 1000)
    cases = {key: Case(group[key[0]], port[key[0]], *asked) for key, asked in plan.items()}
    rates: dict[tuple[str, str], list[float]] = {key: [] for key in cases}
    for _ in range(given.rounds):
        for key, case in sorted(cases.items(), key=lambda each: (each[0][1], each[0][0] != "bare", each[0])):
            rates[key].append(case.rate(given.seconds))
    for key, found in sorted(rates.items()):
        print(f"{' '.join(key):24} {np.median(found):12,.0f} rows per CPU s", flush=True)
    pairs = [
        (("ours", key), (name, key)) for name in servers if name != "ours" for key in ("single", "batch")
    ]
    pairs += [(("ours", "batch arrow"), ("ours", "batch")), (("bare", "echo arrow"), ("ours", "batch"))]
    for above, below in pairs:
        ratios = np.divide(rates[above], rates[below])
        low, middle, high = np.percentile(ratios, (25, 50, 75))
        print(f"{' '.join(above)} / {' '.join(below)}: {middle:.2f} ({low:.2f} to {high:.2f})", flush=True)
    for name in ("bare", "ours") * 2:
        late = latencies(group[name], port[name], one["json"], 4.0, given.realtime)
        print(name, {key: round(value, 2) for key, value in late.items()}, flush=True)


if __name__ == "__main__":
    main()
