"""The Open Inference Protocol, version 2: tensors as JSON or with the binary extension.

Columns are tensors of shape [N] or [N, 1]. Text ids are ``BYTES``: plain texts in JSON; in binary each text
follows its length in four bytes. Other input is refused in one line.
"""

import struct
from typing import Any

import numpy as np

from slc_ops.base.errors import InputError
from slc_ops.serving.answers import Answer
from slc_ops.serving.corrector import Corrector
from slc_ops.serving.formats import NAMES, Given, Unreadable, check_rows, checked, dumps, facts, read_json

HEADER = "inference-header-content-length"
NUMBERS = {
    "FP64": "<f8", "FP32": "<f4", "INT64": "<i8", "INT32": "<i4", "INT16": "<i2", "INT8": "<i1",
    "UINT64": "<u8", "UINT32": "<u4", "UINT16": "<u2", "UINT8": "<u1",
}  # fmt: skip
_OUTPUTS = ("probability", "low", "high")


def metadata(corrector: Corrector) -> Given:
    """Return the model's name, versions and tensors."""
    kinds = corrector.id_types
    types = {
        name: "INT64" if kinds.get(name) == "int64" else "BYTES" for name in (*kinds, "backbone_version")
    }
    inputs = {"logit": "FP64", "time": "FP64"} | types
    return {
        "name": corrector.deployment,
        "versions": [str(version) for version in corrector.versions],
        "platform": "slc_ops",
        "inputs": [{"name": name, "datatype": kind, "shape": [-1]} for name, kind in inputs.items()],
        "outputs": [{"name": name, "datatype": "FP64", "shape": [-1]} for name in _OUTPUTS],
    }


class Request:
    """One ``infer`` request, read and validated."""

    def __init__(self, body: bytes, header_length: str | None, max_rows: int) -> None:
        size = len(body) if header_length is None else _whole(header_length, HEADER)
        if size > len(body):
            raise Unreadable(f"{HEADER} is {size}, but the body has {len(body)} bytes")
        head = read_json(body[:size])
        if not isinstance(head, dict) or not isinstance(head.get("inputs"), list):
            raise InputError("the request has no list of inputs; expected {'inputs': [{'name': …}, …]}")
        self.id = head.get("id")
        if self.id is not None and not isinstance(self.id, str):
            raise InputError(f"id is {self.id!r:.60}; expected a text")
        parameters = _object(head.get("parameters"), "parameters")
        self.interval = parameters.get("interval") is True
        self.outputs = self._wanted(head.get("outputs"), parameters.get("binary_data_output") is True)
        self.columns = checked(_tensors(head["inputs"], body, size, max_rows), max_rows)

    def _wanted(self, outputs: Any, binary: bool) -> dict[str, bool]:
        """Return output name → True if it is requested in binary."""
        if outputs is None:
            return dict.fromkeys(_OUTPUTS if self.interval else _OUTPUTS[:1], binary)
        if not isinstance(outputs, list) or not outputs:
            raise InputError("outputs is not a list of outputs; omit it, or name at least one")
        wanted = {}
        for each in outputs:
            name = _object(each, "an output").get("name")
            if name not in _OUTPUTS:
                raise InputError(f"there is no output {name!r:.60}; expected {', '.join(_OUTPUTS)}")
            found = _object(each.get("parameters"), "parameters").get("binary_data", binary)
            wanted[str(name)] = found is True
        self.interval = self.interval or set(wanted) != {"probability"}
        return wanted


def answer_bytes(request: Request, answer: Answer, name: str) -> tuple[bytes, int | None]:
    """Return the response, and the length of its JSON part if binary data follow it."""
    outputs, raw = [], []
    for wanted, binary in request.outputs.items():
        values = getattr(answer, wanted)
        if values is None:
            values = np.full(len(answer.probability), np.nan)
        output: Given = {"name": wanted, "datatype": "FP64", "shape": [len(values)]}
        if binary:
            raw.append(np.asarray(values, "<f8").tobytes())
            output["parameters"] = {"binary_data_size": len(raw[-1])}
        else:
            output["data"] = values
        outputs.append(output)
    known = {key: value for key, value in facts(answer).items() if key != "version"}
    found: Given = {
        "model_name": name,
        "model_version": "" if answer.version is None else str(answer.version),
        "outputs": outputs,
        "parameters": known | {"unknown": dumps(answer.unknown).decode()},  # parameters cannot be objects
    }
    head = dumps(found if request.id is None else found | {"id": request.id})
    return b"".join([head, *raw]), len(head) if raw else None


def _tensors(inputs: list[Any], body: bytes, place: int, max_rows: int) -> Given:
    """Return the columns; binary data follow the JSON part in the order of the inputs."""
    columns: Given = {}
    for each in inputs:
        tensor = _object(each, "an input")
        name, kind, shape = tensor.get("name"), tensor.get("datatype"), tensor.get("shape")
        if name not in NAMES or name in columns:
            raise InputError(
                f"input {name!r:.60} is unknown or duplicate; expected one each of {', '.join(NAMES)}"
            )
        count = _rows(shape, name)
        check_rows(count, max_rows)
        if kind not in ("BYTES", *NUMBERS):
            raise InputError(f"input {name} is of type {kind!r:.40}; expected BYTES, {', '.join(NUMBERS)}")
        size = _object(tensor.get("parameters"), "parameters").get("binary_data_size")
        if size is None:
            values = _flat(tensor.get("data"), name)
        else:
            size = _whole(size, f"binary_data_size of {name}")
            raw = body[place : place + size]
            if len(raw) < size:
                raise Unreadable(
                    f"input {name} has {size} bytes according to its header, but only {len(raw)} follow"
                )
            place += size
            values = _texts(raw, name) if kind == "BYTES" else _numbers(raw, kind, name)
        if len(values) != count:
            raise InputError(f"input {name} has {len(values)} values; its shape says {count}")
        columns[str(name)] = values
    if place != len(body):
        raise Unreadable(f"{len(body) - place} bytes follow the inputs; expected none")
    return columns


def _numbers(raw: bytes, kind: str, name: Any) -> list[Any]:
    width = np.dtype(NUMBERS[kind])
    if len(raw) % width.itemsize:
        raise Unreadable(f"input {name} has {len(raw)} bytes, which is not a multiple of {kind}")
    values: list[Any] = np.frombuffer(raw, width).tolist()
    return values


def _texts(raw: bytes, name: Any) -> list[str]:
    found, place = [], 0
    while place < len(raw):
        if place + 4 > len(raw):
            raise Unreadable(f"input {name} ends within a length")
        (size,) = struct.unpack_from("<I", raw, place)
        text = raw[place + 4 : place + 4 + size]
        if len(text) < size:
            raise Unreadable(f"input {name} ends within a text")
        try:
            found.append(text.decode())
        except UnicodeDecodeError:
            raise Unreadable(f"input {name} has bytes that are not UTF-8: {text!r:.60}") from None
        place += 4 + size
    return found


def _flat(data: Any, name: Any) -> list[Any]:
    if not isinstance(data, list):
        raise InputError(f"input {name} has no list of data")
    return [each[0] if isinstance(each, list) and len(each) == 1 else each for each in data]


def _rows(shape: Any, name: Any) -> int:
    if (
        not isinstance(shape, list)
        or not all(type(each) is int and each >= 0 for each in shape)
        or not (len(shape) == 1 or (len(shape) == 2 and shape[1] == 1))
    ):
        raise InputError(f"input {name} has the shape {shape!r:.60}; expected [N] or [N, 1]")
    return int(shape[0])


def _whole(value: Any, name: str) -> int:
    text = str(value)
    if isinstance(value, bool) or not (text.isascii() and text.isdigit() and len(text) < 19):
        raise Unreadable(f"{name} is {value!r:.60}; expected a number of bytes")
    return int(text)


def _object(value: Any, name: str) -> Given:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InputError(f"{name} is {value!r:.60}; expected an object")
    return value
