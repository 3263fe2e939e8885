"""An independent client, tritonclient, against ``slc-ops serve``, in its own environment (0113)."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from slc_ops.parameters.parameter_set import ParameterSet
from tests.registry.factory import parameter_set
from tests.release.environments import clean_environment, install, make_environment
from tests.serving.servers import stop

pytestmark = pytest.mark.services
ITEMS, LOGITS = ["item-3", "ítem 9 🎈", "never seen"], [0.2, -1.0, 2.0]
ASK = """
import json, sys
import numpy as np
import tritonclient.http as http

client = http.InferenceServerClient(sys.argv[1].removeprefix("http://"))
items, logits = json.loads(sys.argv[2])
assert client.is_server_live() and client.is_server_ready() and client.is_model_ready("demo")
kinds = {each["name"]: each["datatype"] for each in client.get_model_metadata("demo")["inputs"]}
found = []
for binary in (True, False):
    item = http.InferInput("item_id", [len(items)], kinds["item_id"])
    item.set_data_from_numpy(np.array(items, object), binary_data=binary)
    logit = http.InferInput("logit", [len(items)], kinds["logit"])
    logit.set_data_from_numpy(np.array(logits), binary_data=binary)
    plain = client.infer("demo", [item, logit], request_id="7")
    wanted = ("probability", "low", "high")
    named = [http.InferRequestedOutput(name, binary_data=not binary) for name in wanted]
    some = client.infer("demo", [item, logit], outputs=named)
    assert plain.get_response()["id"] == "7" and plain.get_response()["parameters"]["method"] == "slc"
    assert (some.as_numpy("low") < some.as_numpy("probability")).all()
    found += [plain.as_numpy("probability").tolist(), some.as_numpy("probability").tolist()]
for wrong in (lambda: client.infer("demo", [item]), lambda: client.infer("other", [item, logit])):
    try:
        wrong()
    except http.InferenceServerException as error:
        assert error.status() in ("404", "422"), error
    else:
        raise AssertionError("refused nothing")
print(json.dumps(found))
"""


def test_tritonclient_gets_the_same_probabilities_in_json_and_in_binary(tmp_path: Path) -> None:
    python = make_environment(tmp_path / "venv")
    install(python, "tritonclient[http]>=2.60", pins=[])
    source, said = parameter_set(tmp_path / "set"), tmp_path / "address.json"
    command = [str(Path(sys.executable).parent / "slc-ops"), "serve", "--params", str(source), "--port", "0"]
    server = subprocess.Popen([*command, "--json", str(said)], start_new_session=True)
    try:
        while not said.exists():
            assert server.poll() is None
            time.sleep(0.05)
        address = json.loads(said.read_text())["address"]
        done = subprocess.run(
            [str(python), "-c", ASK, address, json.dumps([ITEMS, LOGITS])],
            env=clean_environment(), capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
    finally:
        stop(server)
    assert done.returncode == 0, done.stderr[-3000:]
    expected = ParameterSet.read(source).correct(ITEMS, LOGITS).tolist()
    assert json.loads(done.stdout) == [expected] * 4
