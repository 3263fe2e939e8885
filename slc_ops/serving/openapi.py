"""The server's OpenAPI 3.1 description; the fuzz test reads it."""

from typing import Any

from slc_ops import __version__
from slc_ops.serving.inference import NUMBERS

Schema = dict[str, Any]
_ID: Schema = {"type": ["string", "integer", "null"]}
_NUMBER: Schema = {"type": "number"}
_ERRORS = {
    "400": "The body cannot be read: not JSON, not Arrow, of another media type, compressed, or too slow",
    "401": "A bearer token is needed",
    "404": "No such path, model or version",
    "413": "More bytes or rows than one request may have",
    "422": "The body can be read, but its rows cannot be corrected",
    "503": "Too many large requests at once",
}


def description(max_rows: int) -> Schema:
    """Return all routes, with their request and response types."""
    rows = {"type": "array"}
    columns: dict[str, Schema] = {
        "item_id": {**rows, "items": _ID},
        "logit": {**rows, "items": _NUMBER},
        "probability": {**rows, "items": {"type": "number", "minimum": 0, "maximum": 1}},
        "group_id": {**rows, "items": _ID},
        "user_id": {**rows, "items": _ID},
        "time": {**rows, "items": {"type": ["number", "null"]}},
        "backbone_version": {"oneOf": [{"type": "string"}, {**rows, "items": {"type": ["string", "null"]}}]},
    }
    one_score = [{"required": ["logit"]}, {"required": ["probability"]}]
    row = _object({name: each.get("items", {"type": ["string", "null"]}) for name, each in columns.items()})
    by_rows = _object({"rows": {**rows, "items": row | {"oneOf": one_score}}}, ["rows"])
    frame = {
        "dataframe_split": _object(
            {
                "columns": {"type": "array", "items": {"type": "string"}},
                "data": {**rows, "items": {"type": "array"}},
                "index": {"type": "array"},
            },
            ["columns", "data"],
            more=True,
        ),
        "dataframe_records": {**rows, "items": {"type": "object"}},
    }
    facts = {
        "version": {"type": ["integer", "null"]},
        "method": {"type": ["string", "null"]},
        "unknown": {"type": "object", "additionalProperties": {"type": "integer"}},
        "backbone_mismatch": {"type": "integer"},
        "versions": {"type": "array", "items": {"type": "integer"}},
    }
    numbers = {"type": "array", "items": {"type": ["number", "null"]}}
    limits = {name: {"oneOf": [numbers, {"type": "null"}]} for name in ("low", "high")}
    answer = _object({"probability": numbers, **limits, **facts}, ["probability", *list(facts)[:3]])
    predictions = {"type": "array", "items": {"type": "object", "additionalProperties": _NUMBER}}
    arrow = {"schema": {"type": "string", "format": "binary"}}
    correct = {
        "application/json": {"schema": {"oneOf": [_object(columns) | {"oneOf": one_score}, by_rows]}},
        "application/vnd.apache.arrow.stream": arrow,
    }
    answers = {"application/json": {"schema": answer}, "application/vnd.apache.arrow.stream": arrow}
    frames = {
        "application/json": {
            "schema": _object(frame, more=True) | {"oneOf": [{"required": [name]} for name in frame]}
        }
    }
    invoked = _object({"predictions": predictions, **facts}, ["predictions", *list(facts)[:3]])
    interval = [{"name": "interval", "in": "query", "schema": {"type": "boolean"}}]
    model = {"name": "model", "in": "path", "required": True, "schema": {"type": "string"}}
    version = {**model, "name": "version"}
    paths = {
        "/correct": _post("Correct rows", correct, answers, interval),
        "/invocations": _post(
            "Correct a data frame as MLflow's clients and SageMaker send it", frames, _json(invoked), interval
        ),
        "/ping": _get("Liveness", _json({"type": "object"})),
        "/health": _get("The served version and the state of the registry", _json({"type": "object"})),
        "/version": _get("The served version, method and window", _json({"type": "object"})),
        "/metrics": _get("Counts for Prometheus", {"text/plain": {"schema": {"type": "string"}}}),
        "/openapi.json": _get("This description", _json({"type": "object"})),
        "/v2": _get("The server, by the Open Inference Protocol", _json({"type": "object"})),
        "/v2/health/live": _get("Liveness", _json({"type": "object"})),
        "/v2/health/ready": _get("Readiness", _json({"type": "object"})),
    }
    for path, named in (
        ("/v2/models/{model}", [model]),
        ("/v2/models/{model}/versions/{version}", [model, version]),
    ):
        paths[path] = _get("The model's versions and tensors", _json({"type": "object"}), named)
        paths[f"{path}/ready"] = _get("Readiness", _json({"type": "object"}), named)
        inferred = _json(_inference_answer()) | {"application/octet-stream": arrow}
        paths[f"{path}/infer"] = _post("Correct tensors", _json(_inference()), inferred, named)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "slc-ops serve",
            "version": __version__,
            "description": f"Columns of a request have equal lengths, at most {max_rows} rows.",
        },
        "paths": paths,
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "security": [{}, {"token": []}],
    }


def _inference() -> Schema:
    shape = {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1, "maxItems": 2}
    tensor = _object(
        {
            "name": {"type": "string"},
            "datatype": {"enum": ["BYTES", *NUMBERS]},
            "shape": shape,
            "data": {"type": "array"},
            "parameters": {"type": "object"},
        },
        ["name", "datatype", "shape"],
        more=True,
    )
    output = _object(
        {"name": {"enum": ["probability", "low", "high"]}, "parameters": {"type": "object"}}, ["name"]
    )
    return _object(
        {
            "id": {"type": "string"},
            "parameters": {"type": "object"},
            "inputs": {"type": "array", "items": tensor},
            "outputs": {"type": "array", "minItems": 1, "items": output},
        },
        ["inputs"],
        more=True,
    )


def _inference_answer() -> Schema:
    names = ("model_name", "model_version", "id")
    return _object(
        {
            **{name: {"type": "string"} for name in names},
            "outputs": {"type": "array", "items": {"type": "object"}},
            "parameters": {"type": "object"},
        },
        ["model_name", "outputs"],
    )


def _object(properties: Schema, required: list[str] | None = None, *, more: bool = False) -> Schema:
    found: Schema = {"type": "object", "properties": properties, "additionalProperties": more}
    return found | {"required": required} if required else found


def _json(schema: Schema) -> Schema:
    return {"application/json": {"schema": schema}}


def _get(summary: str, answers: Schema, parameters: list[Schema] | None = None) -> Schema:
    return {"get": _operation(summary, answers, parameters, ("401", "404"))}


def _post(summary: str, body: Schema, answers: Schema, parameters: list[Schema]) -> Schema:
    operation = _operation(summary, answers, parameters, tuple(_ERRORS))
    return {"post": operation | {"requestBody": {"required": True, "content": body}}}


def _operation(
    summary: str, answers: Schema, parameters: list[Schema] | None, errors: tuple[str, ...]
) -> Schema:
    error = _json(_object({"error": {"type": "string"}}, ["error"]))
    refused = {status: {"description": _ERRORS[status], "content": error} for status in errors}
    found = {
        "summary": summary,
        "responses": {"200": {"description": "The answer", "content": answers}, **refused},
    }
    return found | {"parameters": parameters} if parameters else found
