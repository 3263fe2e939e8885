"""Request and response formats: JSON columns, JSON rows, Arrow streams, MLflow's data frames.

Plain functions from bytes to columns and from an answer to bytes. Invalid bytes raise :class:`Unreadable`
(400), valid bytes without correctable rows :class:`~slc_ops.base.errors.InputError` (422), each in one line.
"""

import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from slc_ops.base.errors import InputError
from slc_ops.rows.columns import as_logits
from slc_ops.serving.answers import Answer
from slc_ops.serving.frames import score_of

JSON = "application/json"
ARROW = "application/vnd.apache.arrow.stream"
NAMES = ("item_id", "logit", "probability", "group_id", "user_id", "time", "backbone_version")
"""The columns of a request."""
_KNOWN = frozenset(NAMES)
_IDS = ("item_id", "group_id", "user_id")
_ID_TYPES = {str, int, type(None)}
_NUMBER_TYPES = {float, int}
_ARROW_RECORD_BATCH, _ARROW_DICTIONARY_BATCH = 3, 2

Given = dict[str, Any]


class Unreadable(InputError):
    """The bytes do not match their media type."""


class TooLarge(InputError):
    """The request has too many rows."""


def read_json(body: bytes) -> Any:
    """Parse strict JSON: UTF-8, no NaN, no lone surrogates."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise Unreadable(f"the body is not JSON: {error}") from None


def json_columns(body: bytes, max_rows: int) -> Given:
    """Read ``{"item_id": […], "logit": […], …}``, or ``{"rows": [{"item_id": …, "logit": …}, …]}``."""
    found = read_json(body)
    if not isinstance(found, dict):
        raise InputError(f"the body is a JSON {_kind(found)}; expected an object of columns, or of rows")
    if "rows" in found:
        if len(found) > 1:
            raise InputError(f"the body has rows and also {_others(found, ('rows',))}; expected rows alone")
        found = records(found["rows"], "rows", max_rows)
    if unknown := found.keys() - _KNOWN:
        raise InputError(
            f"there is no column {sorted(unknown)[0]!r:.60}; expected item_id and logit, and where they "
            "matter group_id, user_id, time, backbone_version"
        )
    return checked(found, max_rows)


def records(rows: Any, name: str, max_rows: int) -> Given:
    """Convert a list of objects to columns; a missing key becomes None."""
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise InputError(f"{name} is not a list of objects; expected [{{'item_id': …, 'logit': …}}, …]")
    check_rows(len(rows), max_rows)
    names = dict.fromkeys(key for row in rows for key in row)
    return {key: [row.get(key) for row in rows] for key in names} if rows else {"logit": [], "item_id": []}


def frame_columns(body: bytes, max_rows: int) -> Given:
    """Read MLflow's ``dataframe_split`` and ``dataframe_records``; columns of other names are ignored."""
    found = read_json(body)
    wanted = "expected {'dataframe_split': {'columns': […], 'data': [[…], …]}} or {'dataframe_records': […]}"
    if not isinstance(found, dict):
        raise InputError(f"the body is a JSON {_kind(found)}; {wanted}")
    if len({"dataframe_split", "dataframe_records"} & found.keys()) != 1:
        raise InputError(f"the body has {_others(found, ()) or 'nothing'}; {wanted}")
    if "dataframe_records" in found:
        columns = records(found["dataframe_records"], "dataframe_records", max_rows)
    elif isinstance(frame := found.get("dataframe_split"), dict):
        names, rows = frame.get("columns"), frame.get("data")
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise InputError(f"dataframe_split has no list of column names; {wanted}")
        if not isinstance(rows, list) or not all(
            isinstance(row, list) and len(row) == len(names) for row in rows
        ):
            raise InputError(f"a row of dataframe_split does not have {len(names)} values; {wanted}")
        check_rows(len(rows), max_rows)
        columns = {name: [row[k] for row in rows] for k, name in enumerate(names)}
    else:
        raise InputError(f"dataframe_split is not an object; {wanted}")
    if "event_time" in columns:  # the name in the log and in MLflow's signature
        columns["time"] = columns.pop("event_time")
    return checked({name: columns[name] for name in NAMES if name in columns}, max_rows)


def checked(columns: Given, max_rows: int) -> Given:
    """Validate columns: lists of equal length, with numbers and ids where expected; return logits."""
    score, named = score_of(columns), columns.get("backbone_version")
    rows = columns[score]
    for name, values in columns.items():
        per_row = name != "backbone_version"
        if not isinstance(values, list) and (per_row or not isinstance(values, str)):
            raise InputError(f"column {name} is a JSON {_kind(values)}; expected a list")
        if per_row and isinstance(rows, list) and len(values) != len(rows):
            raise InputError(
                f"{len(values)} values of {name} and {len(rows)} of {score}; expected equal lengths"
            )
    check_rows(len(rows), max_rows)
    _check_numbers(rows, score)
    for name in _IDS:
        if name in columns and not set(map(type, columns[name])) <= _ID_TYPES:
            wrong = next(each for each in columns[name] if type(each) not in _ID_TYPES)
            raise InputError(f"column {name} holds {wrong!r:.60}; expected ids: texts or integers")
    if isinstance(named, list) and set(map(type, named)) - {str, type(None)}:
        raise InputError("backbone_version has values that are not strings; expected a string for each row")
    if (time := columns.get("time")) is not None:
        given = [each for each in time if each is not None]
        _check_numbers(given, "time")
        columns["time"] = [np.nan if each is None else each for each in time] if given else None
    return columns if score == "logit" else _from_probability(columns)


def arrow_columns(body: bytes, max_rows: int) -> Given:
    """Read an Arrow stream with columns of the same names, of any type for ids or numbers.

    Compressed streams are refused: a few bytes could expand to more than the memory.
    """
    try:
        for message in pa.ipc.MessageReader.open_stream(body):
            if message.type in ("record batch", "dictionary") and _is_compressed(message.metadata):
                raise Unreadable("the Arrow stream is compressed; expected one without compression")
        with pa.ipc.open_stream(body) as stream:
            table = stream.read_all()
        check_rows(table.num_rows, max_rows)
        table.validate(full=True)  # validates offsets and texts of the sender
    except (pa.ArrowException, OSError, struct.error, IndexError) as error:
        raise Unreadable(f"the body is not an Arrow stream: {' '.join(str(error).split())[:200]}") from None
    names = table.column_names
    if unknown := [name for name in names if name not in NAMES] or [n for n in names if names.count(n) > 1]:
        raise InputError(
            f"column {unknown[0]!r:.60} is unknown or duplicate; expected one each of {', '.join(NAMES)}"
        )
    columns: Given = {name: table.column(name).combine_chunks() for name in names}
    score = score_of(columns)
    columns["logit"] = as_logits(_plain(columns.pop(score)), score, 0).astype(np.float64)
    if "time" in columns:
        time = _plain(columns["time"])
        if not (pa.types.is_floating(time.type) or pa.types.is_integer(time.type)):
            raise InputError(f"column time is of type {time.type}; expected numbers")
        columns["time"] = time.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    if "backbone_version" in columns:
        columns["backbone_version"] = columns["backbone_version"].to_pylist()
    return columns


def _plain(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _is_compressed(metadata: pa.Buffer) -> bool:
    """Return True if a record batch's flatbuffer has a compression, its fourth field."""
    data = metadata.to_pybytes()

    def field(table: int, number: int) -> int | None:
        vtable = table - struct.unpack_from("<i", data, table)[0]
        if 4 + 2 * number >= struct.unpack_from("<H", data, vtable)[0]:
            return None
        offset: int = struct.unpack_from("<H", data, vtable + 4 + 2 * number)[0]
        return table + offset if offset else None

    def follow(place: int | None) -> int:
        if place is None:
            raise struct.error("a part of the message is missing")
        return place + int(struct.unpack_from("<I", data, place)[0])

    message = follow(0)
    header = follow(field(message, 2))
    if data[field(message, 1) or 0] == _ARROW_DICTIONARY_BATCH:
        header = follow(field(header, 1))
    return field(header, 3) is not None


# --- responses ----------------------------------------------------------------------------------------


def facts(answer: Answer) -> Given:
    """Return the fields of every answer other than its probabilities."""
    found: Given = {"version": answer.version, "method": answer.method, "unknown": answer.unknown}
    if answer.mismatched:
        found["backbone_mismatch"] = answer.mismatched
    if answer.versions is not None:
        found["versions"] = answer.versions
    return found


def json_answer(answer: Answer, interval: bool) -> bytes:
    """Return ``{"probability": […], "version": …, "method": …, "unknown": {…}}``; an interval may be null."""
    found = {"probability": answer.probability, **facts(answer)}
    return dumps(found | {"low": answer.low, "high": answer.high} if interval else found)


def frame_answer(answer: Answer, interval: bool) -> bytes:
    """Return the response of MLflow's server for the registered model, and the other fields beside it."""
    columns = {"p_corrected": answer.probability}
    if interval and answer.low is not None and answer.high is not None:
        columns |= {"low": answer.low, "high": answer.high}
    rows = zip(*(np.asarray(values).tolist() for values in columns.values()), strict=True)
    predictions = [dict(zip(columns, row, strict=True)) for row in rows]
    return dumps({"predictions": predictions, **facts(answer)})


def arrow_answer(answer: Answer, interval: bool) -> bytes:
    """Return an Arrow stream with ``probability``; the other fields are the schema's metadata."""
    columns: dict[str, Any] = {"probability": pa.array(answer.probability)}
    if interval:
        nothing = pa.nulls(len(answer.probability), pa.float64())
        for name, found in (("low", answer.low), ("high", answer.high)):
            columns[name] = nothing if found is None else pa.array(found)
    if answer.versions is not None:
        columns["version"] = pa.array(answer.versions)
    known = facts(answer) | {"versions": None}
    metadata = {name: dumps(value) for name, value in known.items() if value is not None}
    schema = pa.schema([(name, values.type) for name, values in columns.items()], metadata=metadata)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as stream:
        stream.write_batch(pa.record_batch(list(columns.values()), schema=schema))
    written: bytes = sink.getvalue().to_pybytes()
    return written


def dumps(value: Any) -> bytes:
    """Serialise to JSON; NumPy arrays become lists."""
    return orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)


def _from_probability(columns: Given) -> Given:
    values = as_logits(pa.array(np.array(columns.pop("probability"), np.float64)), "probability", 0)
    return columns | {"logit": values.astype(np.float64)}


def _check_numbers(values: list[Any], name: str) -> None:
    if not set(map(type, values)) <= _NUMBER_TYPES:
        wrong = next(each for each in values if type(each) not in _NUMBER_TYPES)
        raise InputError(f"column {name} holds {wrong!r:.60}, a JSON {_kind(wrong)}; expected numbers")


def check_rows(count: int, max_rows: int) -> None:
    """Raise :class:`TooLarge` above the limit of rows."""
    if count > max_rows:
        raise TooLarge(f"{count:,} rows; the limit of a request is {max_rows:,}: send the rows in parts")


def _kind(value: Any) -> str:
    names = {dict: "object", list: "array", str: "string", bool: "boolean", type(None): "null"}
    return names.get(type(value), "number")


def _others(found: Mapping[str, Any], known: tuple[str, ...]) -> str:
    return ", ".join(name for name in found if name not in known)[:200]
