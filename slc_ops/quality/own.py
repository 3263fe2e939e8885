"""A deployment's own expectations, evaluated by Great Expectations on the window's rows.

Only their columns are read. The results are cached beside the window, because later windows with it in their
baseline need them again. They contain counts and numbers, never an id of a user or an event, so an erasure
need not search them.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from slc_ops.base.code_version import library_version
from slc_ops.base.digests import digest_json
from slc_ops.base.files import stored_under, understanding, write_json
from slc_ops.base.parquet import read_parquet
from slc_ops.intake.manifest import WindowManifest
from slc_ops.quality.passes import PRIVATE
from slc_ops.quality.rules import Rule
from slc_ops.quality.suite import Evaluated, batch_of, library
from slc_ops.settings.expectations import OwnExpectation

if TYPE_CHECKING:
    import pandas as pd

FILE = "expectations.json"
VERSION = 1
SENTENCE = "a rule of the deployment's own"
COUNTING = ("count", "proportion", "unique")
MAX_MESSAGE_LENGTH = 200


def own_evaluated(manifest: WindowManifest, entries: Sequence[OwnExpectation]) -> list[Evaluated]:
    """Return Great Expectations' results for the deployment's own entries, in their order.

    An entry that cannot be evaluated (a missing column, an invalid argument) fails as critical, whatever its
    severity: an unchecked rule must not count as a passed one.
    """
    if not entries or not manifest.rows:
        return []
    path = manifest.directory / FILE
    asked = [entry.model_dump(mode="json") for entry in entries]
    libraries = [library_version(name) for name in ("great_expectations", "pandas")]
    key = digest_json([VERSION, manifest.digest, asked, libraries])
    known = stored_under(path, key)
    with understanding(path):
        answers = known["answers"] if known else None
    if answers is None:
        answers = _asked(manifest, entries)
        write_json(path, {"key": key, "answers": answers})
    return [
        Evaluated(_rule(entry, code, answer["possible"]), entry.type, answer["observed"], answer["met"])
        for entry, code, answer in zip(entries, _codes(entries), answers, strict=True)
    ]


def _rule(entry: OwnExpectation, code: str, possible: bool) -> Rule:
    given = ", ".join(f"{name} {value}" for name, value in entry.kwargs.items() if name != "column")
    given = given if len(given) <= MAX_MESSAGE_LENGTH else f"{given[:MAX_MESSAGE_LENGTH]}…"
    return Rule(
        code,
        ", ".join(entry.columns) or "rows",
        "warning" if entry.severity == "warn" and possible else "critical",
        SENTENCE,
        words=f"expected {given}" if given else "expected of every row",
    )


def _codes(entries: Sequence[OwnExpectation]) -> list[str]:
    """Return a name for each entry: its type without the prefix, and its columns, numbered if it repeats."""
    names = [
        "_".join([entry.type.removeprefix("expect_").removeprefix("column_"), *entry.columns])
        for entry in entries
    ]
    numbers = [names[: k + 1].count(name) for k, name in enumerate(names)]
    return [name if n == 1 else f"{name}_{n}" for name, n in zip(names, numbers, strict=True)]


def _asked(manifest: WindowManifest, entries: Sequence[OwnExpectation]) -> list[dict[str, Any]]:
    """Evaluate all possible entries in one call of the library."""
    gx = library()
    from great_expectations.expectations.registry import get_expectation_impl

    answers: list[dict[str, Any]] = [{} for _ in entries]
    suite = []
    for number, entry in enumerate(entries):
        missing = [name for name in entry.columns if name not in manifest.schema]
        if entry.type == "expect_column_to_exist":
            found = "missing" if missing else "there"
            answers[number] = {"possible": True, "observed": found, "met": not missing}
        elif missing:
            answers[number] = _impossible(f"the log of this window has no column {missing[0]!r}")
        else:
            try:
                suite.append(get_expectation_impl(entry.type)(**entry.kwargs, meta={"entry": number}))
            except (ValueError, TypeError) as error:
                answers[number] = _impossible(_complaint(error))
    if suite:
        batch = batch_of(_frame(manifest, entries))
        for answer in batch.validate(gx.ExpectationSuite("own", suite), result_format="SUMMARY").results:
            number = answer.expectation_config.meta["entry"]
            answers[number] = _answer(entries[number], answer)
    return answers


def _frame(manifest: WindowManifest, entries: Sequence[OwnExpectation]) -> "pd.DataFrame":
    import pandas as pd

    named = {column for entry in entries for column in entry.columns}
    columns = [name for name in manifest.schema if name in named]
    if not columns:
        return pd.DataFrame(index=range(manifest.rows))
    frame: pd.DataFrame = read_parquet(manifest.path, columns).to_pandas()
    return frame


def _answer(entry: OwnExpectation, answer: Any) -> dict[str, Any]:
    trouble = answer.exception_info or {}
    if not answer.success and trouble.get("raised_exception", bool(trouble)):
        said = trouble if "exception_message" in trouble else next(iter(trouble.values()))
        why = str(said.get("exception_message") or "no reason given")
        private = PRIVATE.intersection(entry.columns)
        return _impossible("it cannot be evaluated on these values" if private else why)
    return {"possible": True, "observed": _observed(entry, answer.result), "met": bool(answer.success)}


def _impossible(why: str) -> dict[str, Any]:
    line = " ".join(why.split())[:MAX_MESSAGE_LENGTH]
    return {"possible": False, "observed": f"no answer: {line}", "met": False}


def _complaint(error: Exception) -> str:
    """Return the library's message about an argument in one line."""
    found = error.errors() if hasattr(error, "errors") else [{"loc": (), "msg": str(error)}]
    return "; ".join(
        dict.fromkeys(f"{'.'.join(map(str, each['loc']))}: {each['msg']}".strip(": ") for each in found)
    )


def _observed(entry: OwnExpectation, result: dict[str, Any]) -> str | float | int:
    """Return the observed value, without values that identify a user or an event."""
    if "unexpected_count" in result:
        count = int(result["unexpected_count"])
        if "element_count" not in result:  # for a set of values
            return f"{count} values that are not expected"
        rows = int(result["element_count"])
        return f"{count} of {rows} rows fail ({count / max(rows, 1):.2%})"
    value: Any = result.get("observed_value")
    if PRIVATE.intersection(entry.columns) and not any(word in entry.type for word in COUNTING):
        return "a value that is not shown: it may name a user"
    if isinstance(value, dict):  # quantiles
        value = value.get("values", value)
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, (int, float)) and value - value == 0:
        return value
    if isinstance(value, (list, set, tuple)) and len(value) > 10:
        return f"{len(value)} values"
    return str(value)
