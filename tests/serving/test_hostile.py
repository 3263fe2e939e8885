"""Invalid ids and a tampered cache give a typed error or the last good set, never a crash."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from slc_ops.base.errors import InputError, RegistryError
from slc_ops.serving import Corrector
from slc_ops.serving.frames import correct_frame
from slc_ops.serving.pointer import Pointer
from slc_ops.serving.sources import registry_name
from tests.registry.factory import WEEKS, parameter_set
from tests.serving.faulty import faulty_registry

STRANGE: list[Any] = [
    1.5, float("nan"), b"item-1", {"a": 1}, object(), True, 2**63, 2**64 + 1, "\ud800",
    [1.5], [b"x"], [1.5] * 9, ["a", 1] * 5, [2**70] * 9, ["\ud800"] * 9, [["a"]] * 9,
    np.array([1.5] * 9), np.array([["a"]]), iter(["a"]),
]  # fmt: skip


@pytest.mark.parametrize("integer_ids", [True, False])
@pytest.mark.parametrize("ids", STRANGE, ids=lambda value: repr(value).partition(" object at ")[0][:30])
def test_an_id_of_the_wrong_type_gives_a_typed_error(tmp_path: Path, ids: Any, integer_ids: bool) -> None:
    corrector = Corrector.from_directory(parameter_set(tmp_path / "set", integer_ids=integer_ids))
    logits = [0.5] * len(ids) if hasattr(ids, "__len__") and not isinstance(ids, str | bytes | dict) else 0.5
    with pytest.raises(InputError) as caught:
        corrector.correct(ids, logits)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("logits", [None, "x", [None], ["x"], [[0.5]], {}])
def test_a_logit_that_is_not_a_number_gives_a_typed_error(parameters: Path, logits: Any) -> None:
    corrector = Corrector.from_directory(parameters)
    ids = ["item-1"] if isinstance(logits, list) else "item-1"
    with pytest.raises(InputError):
        corrector.correct(ids, logits)


def test_a_frame_with_text_instead_of_numbers_gives_a_typed_error(parameters: Path) -> None:
    corrector = Corrector.from_directory(parameters)
    for frame in (
        pd.DataFrame({"item_id": ["item-1"], "logit": ["x"]}),
        pd.DataFrame({"item_id": [1.5], "logit": [0.5]}),
        pd.DataFrame({"item_id": ["item-1"], "logit": [0.5], "event_time": ["now"]}),
    ):
        with pytest.raises(InputError):
            correct_frame(corrector, frame)


GOOD = Pointer(
    version=1,
    run_id="run1",
    source="mlflow-artifacts:/1/run1/artifacts/model",
    window=WEEKS[0],
    revision=1,
    move="promotion",
).as_dict()


@pytest.mark.faults(
    "a hostile pointer file in the serving cache without the registry",
    "it is ignored",
)
@pytest.mark.parametrize(
    "change",
    [
        {"version": "../../evil"},
        {"version": True},
        {"version": -1},
        {"version": 1e300},
        {"run_id": "/../../../evil"},
        {"run_id": None},
        {"run_id": 7},
        {"window": "never"},
        {"window": None},
        {"revision": "1"},
        {"revision": 2**70},
        {"source": ["x"]},
        {"unknown": 1},
        "[]",
        "null",
        "{",
        "\x00",
        "1" * 5000,
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_hostile_pointer_file_is_ignored_during_an_outage(
    tmp_path: Path, parameters: Path, change: Any
) -> None:
    outside = tmp_path / "evil-run1"
    shutil.copytree(parameters, outside)  # a complete, valid set at the target of a path traversal
    cache = tmp_path / "cache"
    pointer = cache / registry_name("http://127.0.0.1:9") / "slc-demo" / "champion.json"
    pointer.parent.mkdir(parents=True)
    pointer.write_text(change if isinstance(change, str) else json.dumps(GOOD | change))
    with pytest.raises(RegistryError, match="cannot be reached"):
        Corrector.from_registry("http://127.0.0.1:9", "demo", cache=cache, interval=None, timeout=0.5)
    assert outside.is_dir()


def test_a_hostile_pointer_file_is_replaced_when_the_registry_recovers(
    tmp_path: Path, parameters: Path
) -> None:
    with faulty_registry(parameters) as server:
        pointer = tmp_path / registry_name(server.address) / "slc-demo" / "champion.json"
        pointer.parent.mkdir(parents=True)
        pointer.write_text(json.dumps(GOOD | {"run_id": "/../../../evil"}))
        corrector = Corrector.from_registry(server.address, "demo", cache=tmp_path, interval=None)
    assert corrector.health()["status"] == "ok"
    assert json.loads(pointer.read_text())["run_id"] == "run1"


def test_a_registry_that_names_a_run_outside_the_cache_is_refused(tmp_path: Path) -> None:
    tags = {"window_start": WEEKS[0].bounds["start"], "window_end": WEEKS[0].bounds["end"]}
    with pytest.raises(RegistryError, match="does not describe a version"):
        Pointer.from_tags("1", "../../../etc", "file:///x", tags)
