"""The routes of the server, tested in process: formats, facts, errors, token, limits."""

import base64
import gzip
import hashlib
import hmac
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

from slc_ops.parameters.parameter_set import ParameterSet
from slc_ops.serving import Corrector, app
from slc_ops.serving.endpoint import Limits
from tests.registry.factory import parameter_set

ITEMS, LOGITS = ["item-3", "item-9", "never seen"], [0.2, -1.0, 2.0]
ARROW = {"content-type": "application/vnd.apache.arrow.stream"}
TOKEN = "0123456789abcdef0123456789"


@pytest.fixture(scope="module")
def client(parameters: Path) -> TestClient:
    return TestClient(app(Corrector.from_directory(parameters)))


@pytest.fixture(scope="module")
def expected(parameters: Path) -> list[float]:
    found: list[float] = ParameterSet.read(parameters).correct(ITEMS, LOGITS).tolist()
    return found


def stream(table: pa.Table, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table)
    written: bytes = sink.getvalue().to_pybytes()
    return written


def error_of(answer: Any, status: int) -> str:
    """The one-line message of an error."""
    assert answer.status_code == status, answer.text
    (found,) = answer.json().values()
    assert "\n" not in found
    assert found
    return str(found)


def test_columns_and_rows_give_the_same_answer(client: TestClient, expected: list[float]) -> None:
    answer = client.post("/correct", json={"item_id": ITEMS, "logit": LOGITS})
    assert answer.json() == {
        "probability": expected, "version": None, "method": "slc", "unknown": {"item": 1},
    }  # fmt: skip
    rows = [{"item_id": item, "logit": logit} for item, logit in zip(ITEMS, LOGITS, strict=True)]
    assert client.post("/correct", json={"rows": rows}).json() == answer.json()


def test_one_row_and_a_batch_get_the_same_answer(client: TestClient, expected: list[float]) -> None:
    for item, logit, wanted in zip(ITEMS, LOGITS, expected, strict=True):
        found = client.post("/correct", json={"item_id": [item], "logit": [logit]}).json()
        assert found["probability"] == pytest.approx([wanted], abs=1e-15)
        assert found["unknown"] == {"item": int(item == "never seen")}


def test_an_arrow_stream_gets_an_arrow_stream(client: TestClient, expected: list[float]) -> None:
    table = pa.table({"item_id": pa.array(ITEMS).dictionary_encode(), "logit": pa.array(LOGITS)})
    answer = client.post("/correct?interval=true", content=stream(table), headers=ARROW)
    found = pa.ipc.open_stream(answer.content).read_all()
    assert found.column("probability").to_pylist() == expected
    assert found.column_names == ["probability", "low", "high"]
    facts = {key.decode(): json.loads(value) for key, value in found.schema.metadata.items()}
    assert facts == {"method": "slc", "unknown": {"item": 1}}


def test_probabilities_are_clipped_as_in_the_log(client: TestClient, expected: list[float]) -> None:
    given = (1 / (1 + np.exp(-np.array(LOGITS)))).tolist()
    found = client.post("/correct", json={"item_id": ITEMS, "probability": given}).json()
    assert found["probability"] == pytest.approx(expected, abs=1e-12)


def test_an_interval_contains_the_probability_and_is_wider_for_unknown_items(client: TestClient) -> None:
    columns = {"item_id": ["item-3", "never seen"], "logit": [0.2, 0.2]}
    found = client.post("/correct?interval=true", json=columns).json()
    low, p, high = (np.array(found[name]) for name in ("low", "probability", "high"))
    assert ((low < p) & (p < high)).all()
    assert (high - low)[1] > (high - low)[0]


def test_the_interval_of_a_method_without_offsets_is_null(tmp_path: Path) -> None:
    platt = TestClient(app(Corrector.from_directory(parameter_set(tmp_path / "platt", method="platt"))))
    found = platt.post("/correct?interval=true", json={"logit": [0.1, 0.2]}).json()
    assert (found["low"], found["high"], found["unknown"]) == (None, None, {})


def test_mlflow_frames_get_the_answers_of_mlflow(client: TestClient, expected: list[float]) -> None:
    rows = [[item, logit, "x"] for item, logit in zip(ITEMS, LOGITS, strict=True)]
    names = ["item_id", "logit", "unused"]
    split = {"dataframe_split": {"columns": names, "index": [0, 1, 2], "data": rows}}
    records = {"dataframe_records": [dict(zip(names, row, strict=True)) for row in rows]}
    for body in (split, records):
        found = client.post("/invocations", json=body).json()
        assert [row["p_corrected"] for row in found["predictions"]] == expected
        assert (found["method"], found["unknown"]) == ("slc", {"item": 1})


def test_open_inference_in_json(client: TestClient, expected: list[float]) -> None:
    assert client.get("/v2/health/live").status_code == client.get("/v2/health/ready").status_code == 200
    assert client.get("/v2/models/demo/ready").status_code == 200
    described = client.get("/v2/models/demo").json()
    assert {"name": "item_id", "datatype": "BYTES", "shape": [-1]} in described["inputs"]
    body = {
        "id": "7",
        "inputs": [
            {"name": "item_id", "datatype": "BYTES", "shape": [3, 1], "data": [[item] for item in ITEMS]},
            {"name": "logit", "datatype": "FP64", "shape": [3], "data": LOGITS},
        ],
    }
    found = client.post("/v2/models/demo/infer", json=body).json()
    (output,) = found["outputs"]
    assert (found["id"], found["model_name"], output["data"]) == ("7", "demo", expected)
    assert json.loads(found["parameters"]["unknown"]) == {"item": 1}


def test_open_inference_in_binary(client: TestClient, expected: list[float]) -> None:
    texts = b"".join(len(item).to_bytes(4, "little") + item.encode() for item in ITEMS)
    numbers = np.array(LOGITS, "<f8").tobytes()
    sizes = {"item_id": ("BYTES", len(texts)), "logit": ("FP64", 24)}
    head = json.dumps({
        "inputs": [
            {"name": name, "datatype": kind, "shape": [3], "parameters": {"binary_data_size": size}}
            for name, (kind, size) in sizes.items()
        ],
        "outputs": [{"name": name, "parameters": {"binary_data": True}} for name in ("probability", "low")],
    }).encode()  # fmt: skip
    headers = {"inference-header-content-length": str(len(head))}
    answer = client.post("/v2/models/demo/infer", content=head + texts + numbers, headers=headers)
    size = int(answer.headers["inference-header-content-length"])
    assert [each["parameters"] for each in json.loads(answer.content[:size])["outputs"]] == [
        {"binary_data_size": 24}
    ] * 2
    assert np.frombuffer(answer.content[size : size + 24]).tolist() == expected
    for cut in (1, 20, 24, 30):  # a body that ends too early, anywhere
        short = client.post("/v2/models/demo/infer", content=(head + texts + numbers)[:-cut], headers=headers)
        assert error_of(short, 400)


def test_health_version_metrics_and_description(client: TestClient) -> None:
    assert client.get("/ping").status_code == 200
    assert client.get("/health").json()["status"] == "ok"
    assert client.get("/version").json()["method"] == "slc"
    assert (
        'slc_serving_requests_total{deployment="demo",path="/ping",status="200"}'
        in client.get("/metrics").text
    )
    assert client.get("/openapi.json").json()["openapi"] == "3.1.0"
    assert client.head("/health").status_code == 200


REFUSED: list[tuple[int, str, Any]] = [
    (400, "not JSON", b"{"),
    (400, "not JSON", b'{"item_id": ["a"], "logit": [NaN]}'),
    (400, "not JSON", b'{"item_id": ["a"], "logit": [1e999]}'),
    (400, "not JSON", b'{"item_id": ["\\ud800"], "logit": [1]}'),
    (400, "not JSON", b'{"item_id": ["\xff"], "logit": [1]}'),
    (422, "JSON array", []),
    (422, "expected one of the columns", {}),
    (422, "expected a list", {"item_id": "a", "logit": [1.0]}),
    (422, "expected equal lengths", {"item_id": ["a", "b"], "logit": [1.0]}),
    (422, "expected numbers", {"item_id": ["a"], "logit": ["0.3"]}),
    (422, "expected numbers", {"item_id": ["a"], "logit": [True]}),
    (422, "expected numbers", {"item_id": ["a"], "logit": [None]}),
    (422, "expected ids: texts or integers", {"item_id": [1.5], "logit": [0.3]}),
    (422, "expected ids: texts or integers", {"item_id": [0.5] * 9, "logit": [0.3] * 9}),
    (422, "", {"item_id": [1.5, "a", True, {}, [], 3, 4, 5, 6], "logit": [0.3] * 9}),
    (422, "expected ids", {"item_id": [{}], "logit": [0.3]}),
    (422, "no column 'grop_id'", {"item_id": ["a"], "logit": [0.3], "grop_id": ["x"]}),
    (422, "rows alone", {"rows": [], "logit": []}),
    (422, "list of objects", {"rows": [1]}),
    (422, "outside [0, 1]", {"item_id": ["a"], "probability": [1.5]}),
    (422, "not strings", {"item_id": ["a"], "logit": [0.3], "backbone_version": [3]}),
]  # fmt: skip


@pytest.mark.parametrize(("status", "words", "body"), REFUSED, ids=range(len(REFUSED)))
def test_invalid_rows_are_refused_in_one_line(client: TestClient, status: int, words: str, body: Any) -> None:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {"content-type": "application/json"}
    assert words in error_of(client.post("/correct", content=raw, headers=headers), status)


def test_unreadable_arrow_streams_are_refused(client: TestClient) -> None:
    table = pa.table({"item_id": ITEMS, "logit": LOGITS})
    good = stream(table)
    bad_text = pa.StringArray.from_buffers(3, *pa.array(ITEMS).buffers()[1:2], pa.py_buffer(b"\xff" * 64))
    for body, words in (
        (b"", "not an Arrow stream"),
        (good[: len(good) // 2], "not an Arrow stream"),
        (stream(pa.table({"item_id": ["a" * 10_000] * 3, "logit": LOGITS}), compression="zstd"), "compress"),
        (stream(pa.table({"item_id": bad_text, "logit": LOGITS})), "UTF8"),
    ):
        assert words in error_of(client.post("/correct", content=body, headers=ARROW), 400)
    for columns, words in (
        ({"item_id": ITEMS}, "one of the columns"),
        ({"item_id": ITEMS, "logit": [np.nan, 0.0, 0.0]}, "NaN"),
        ({"item_id": [1.5, 2.5, 3.5], "logit": LOGITS}, "of type double"),
        ({"item_id": ITEMS, "logit": LOGITS, "time": ["a", "b", "c"]}, "expected numbers"),
    ):
        assert words in error_of(
            client.post("/correct", content=stream(pa.table(columns)), headers=ARROW), 422
        )


def test_a_damaged_arrow_stream_never_causes_a_server_error(client: TestClient) -> None:
    good = bytearray(stream(pa.table({"item_id": ITEMS, "logit": LOGITS})))
    random = np.random.default_rng(0)
    for place in random.integers(0, len(good), 150).tolist():
        changed = good.copy()
        changed[place] ^= 1 << int(random.integers(8))
        assert client.post("/correct", content=bytes(changed), headers=ARROW).status_code in (
            200,
            400,
            413,
            422,
        )


@pytest.mark.parametrize(
    "change",
    [
        {"inputs": {}},
        {"inputs": [{"name": "logit", "datatype": "FP64", "shape": [2], "data": [0.1]}]},
        {"inputs": [{"name": "logit", "datatype": "FP64", "shape": [-1], "data": [0.1]}]},
        {"inputs": [{"name": "logit", "datatype": "FP16", "shape": [1], "data": [0.1]}]},
        {"inputs": [{"name": "other", "datatype": "FP64", "shape": [1], "data": [0.1]}]},
        {"inputs": [{"name": "logit", "datatype": "FP64", "shape": [1], "data": [0.1]}], "outputs": [{}]},
        {"inputs": [{"name": "logit", "datatype": "FP64", "shape": [1], "data": [0.1]}], "id": 3},
        {"inputs": [None]},
    ],
)
def test_invalid_tensors_are_refused(client: TestClient, change: Any) -> None:
    assert error_of(client.post("/v2/models/demo/infer", json=change), 422)


def test_unknown_paths_and_methods_are_refused(client: TestClient) -> None:
    assert "/openapi.json" in error_of(client.get("/nothing"), 404)
    assert "use POST" in error_of(client.get("/correct"), 405)
    assert client.get("/correct").headers["allow"] == "POST"
    assert "'demo' is served" in error_of(client.get("/v2/models/other"), 404)
    assert "not served" in error_of(client.post("/v2/models/demo/versions/3/infer", json={}), 404)
    assert "content type" in error_of(client.post("/correct", content=b"{}"), 400)
    zipped = gzip.compress(b"{}")
    coded = {"content-type": "application/json", "content-encoding": "gzip"}
    assert "compressed" in error_of(client.post("/correct", content=zipped, headers=coded), 400)


def test_rows_and_bytes_have_limits(parameters: Path) -> None:
    limits = Limits(bytes=2000, rows=5)
    small = TestClient(app(Corrector.from_directory(parameters), limits=limits))
    body = {"item_id": ["a"] * 6, "logit": [0.1] * 6}
    assert "limit of a request is 5:" in error_of(small.post("/correct", json=body), 413)
    assert "limit of a request is 5:" in error_of(
        small.post("/correct", content=stream(pa.table(body)), headers=ARROW), 413
    )
    huge = {"inputs": [{"name": "logit", "datatype": "FP64", "shape": [6], "data": [0.1] * 6}]}
    assert "limit of a request is 5:" in error_of(small.post("/v2/models/demo/infer", json=huge), 413)
    long = {"item_id": ["a" * 3000], "logit": [0.1]}
    assert "more than 2,000 bytes" in error_of(small.post("/correct", json=long), 413)
    chunks = (b"x" * 500 for _ in range(100))  # no length is stated
    chunked = small.post("/correct", content=chunks, headers={"content-type": "application/json"})
    assert "more than 2,000 bytes" in error_of(chunked, 413)
    assert small.post("/correct", json={"item_id": ["a"], "logit": [0.1]}).status_code == 200


def test_a_large_body_is_answered_in_a_thread(client: TestClient, parameters: Path) -> None:
    body = {"item_id": ITEMS * 4000, "logit": LOGITS * 4000}
    found = client.post("/correct", json=body).json()
    assert found["probability"] == ParameterSet.read(parameters).correct(*body.values()).tolist()
    assert found["unknown"] == {"item": 4000}


def test_all_routes_but_the_probes_require_the_token(parameters: Path) -> None:
    locked = TestClient(app(Corrector.from_directory(parameters), token=TOKEN))
    good = {"authorization": f"Bearer {TOKEN}"}
    for path in ("/health", "/version", "/metrics", "/openapi.json", "/v2", "/v2/models/demo", "/nothing"):
        assert error_of(locked.get(path), 401)
        assert locked.get(path, headers=good).status_code in (200, 404)
    for given in ("", "Bearer", f"Bearer {TOKEN}x", f"bearer {TOKEN}", f"Basic {TOKEN}"):
        answer = locked.post("/correct", json={"logit": [1.0]}, headers={"authorization": given})
        assert answer.headers["www-authenticate"] == 'Bearer realm="slc-ops"'
        assert error_of(answer, 401)
    for path in ("/ping", "/v2/health/live", "/v2/health/ready"):
        assert locked.get(path).content == b"{}"


def test_the_application_can_be_mounted_in_another(parameters: Path, expected: list[float]) -> None:
    outer = TestClient(Starlette(routes=[Mount("/slc", app(Corrector.from_directory(parameters)))]))
    found = outer.post("/slc/correct", json={"item_id": ITEMS, "logit": LOGITS}).json()
    assert found["probability"] == expected


def test_rows_of_another_backbone_are_counted_in_the_answer(tmp_path: Path) -> None:
    ParameterSet.read(parameter_set(tmp_path / "set")).with_provenance(backbone_version="gru-1").write(
        tmp_path / "one"
    )
    client = TestClient(app(Corrector.from_directory(tmp_path / "one")))
    body = {"item_id": ITEMS, "logit": LOGITS, "backbone_version": ["gru-1", "gru-2", None]}
    found = client.post("/correct", json=body).json()
    assert found["backbone_mismatch"] == 1
    assert found["probability"][1] == pytest.approx(1 / (1 + np.exp(1.0)))
    assert (
        "backbone_mismatch" not in client.post("/correct", json=body | {"backbone_version": "gru-1"}).json()
    )


def signed(secret: str, body: bytes, stamp: int) -> dict[str, str]:
    """The signature of MLflow."""
    content = f"d.{stamp}.".encode() + body
    mac = base64.b64encode(hmac.new(secret.encode(), content, hashlib.sha256).digest()).decode()
    return {"x-mlflow-delivery-id": "d", "x-mlflow-timestamp": str(stamp), "x-mlflow-signature": f"v1,{mac}"}


def test_a_webhook_must_be_signed_and_recent(parameters: Path) -> None:
    from mlflow.webhooks.delivery import _generate_hmac_signature

    hooked = TestClient(app(Corrector.from_directory(parameters), token=TOKEN, webhook_secret=TOKEN))
    body, now = b'{"entity": "model_version_alias"}', int(time.time())
    good = signed(TOKEN, body, now)
    assert good["x-mlflow-signature"] == _generate_hmac_signature(TOKEN, "d", str(now), body.decode())
    assert hooked.post("/webhooks/mlflow", content=body, headers=good).json() == {"changed": False}
    for headers in (
        {},
        signed("another secret", body, now),
        signed(TOKEN, b"{}", now),
        good | {"x-mlflow-signature": "v1,no base64 at all"},
        signed(TOKEN, body, now - 3600),
        signed(TOKEN, body, now + 3600),
    ):
        assert error_of(hooked.post("/webhooks/mlflow", content=body, headers=headers), 401)
    unhooked = TestClient(app(Corrector.from_directory(parameters)))
    assert error_of(unhooked.post("/webhooks/mlflow", content=body, headers=good), 404)
