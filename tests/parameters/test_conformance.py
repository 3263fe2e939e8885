"""The Python reader passes the conformance suite, both the stored one and a newly written one."""

import json
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from slc_ops.base.errors import InputError, ParameterSetError
from slc_ops.parameters import storage
from slc_ops.parameters.golden import golden_vectors

ROOT = Path(__file__).resolve().parents[2]
SUITE = ROOT / "conformance"
ENTRIES: list[dict[str, Any]] = json.loads((SUITE / "manifest.json").read_text(encoding="utf-8"))["sets"]


def check(suite: Path, entry: dict[str, Any]) -> None:
    """Assert what a reader must do with one entry of the manifest."""
    directory = suite / entry["directory"]
    if "error" in entry:
        with pytest.raises(ParameterSetError):
            storage.read(directory, deployment=entry.get("deployment"))
        return
    parameters = storage.read(directory)
    for row in entry["rows"]:
        given = row.get("item_id"), row["logit"], row["time"]
        others = {"group": row.get("group_id"), "user": row.get("user_id")}
        if row["probability"] is None:
            with pytest.raises(InputError):
                parameters.correct_one(*given, **others)
        else:
            assert parameters.correct_one(*given, **others) == pytest.approx(row["probability"], abs=1e-9)


@pytest.mark.parametrize(
    "entry", ENTRIES, ids=lambda entry: f"{entry['directory']} {entry.get('deployment', '')}"
)
def test_the_reader_conforms(entry: dict[str, Any]) -> None:
    check(SUITE, entry)


def test_a_newly_written_suite_passes_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    import conformance

    conformance.write(tmp_path)
    written = json.loads((tmp_path / "manifest.json").read_text(encoding="utf-8"))["sets"]
    assert [entry["directory"] for entry in written] == [entry["directory"] for entry in ENTRIES]
    for entry in written:
        check(tmp_path, entry)
    sys.modules.pop("conformance")


READER = """
import json, sys
from pathlib import Path
from slc_ops.base.errors import InputError
from slc_ops.parameters import storage

parameters = storage.read(Path(sys.argv[1]), deployment=(sys.argv[2:] or [None])[0])
for line in sys.stdin:
    row = json.loads(line)
    ids = [row.get(name) for name in ("item_id", "group_id", "user_id")]
    try:
        print(parameters.correct_one(ids[0], row["logit"], row["time"], group=ids[1], user=ids[2]))
    except InputError:
        print("null")
"""


@pytest.mark.slow
def test_the_program_of_the_suite_tests_a_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(SUITE))
    import run

    (tmp_path / "reader.py").write_text(READER)
    (tmp_path / "careless.py").write_text("import sys\nfor line in sys.stdin: print(0.5)")
    chosen = ("good/effects", "good/time-covariate", "good/deployment", "bad/golden-off")
    entries = [entry for entry in ENTRIES if entry["directory"] in chosen]
    reader = [sys.executable, str(tmp_path / "reader.py")]
    assert [run.fault(reader, entry, 1e-9) for entry in entries] == [
        None
    ] * 5  # one entry has two deployments
    assert run.main([sys.executable, "-S", str(tmp_path / "careless.py")]) == 1
    assert capsys.readouterr().out.endswith(f"\n0 of {len(ENTRIES)} entries pass\n")
    sys.modules.pop("run")


@pytest.mark.parametrize("name", ["params", "golden"])
def test_the_schemas_accept_every_valid_set(name: str) -> None:
    schema = json.loads((ROOT / "docs" / "assets" / f"{name}.schema.json").read_text(encoding="utf-8"))
    check_one = jsonschema.Draft202012Validator(schema)
    for directory in sorted((SUITE / "good").iterdir()):
        check_one.validate(json.loads((directory / f"{name}.json").read_text(encoding="utf-8")))
    wrong = json.loads((SUITE / "bad" / "unknown-link" / "params.json").read_text(encoding="utf-8"))
    assert name == "golden" or not check_one.is_valid(wrong)


def test_the_schema_describes_the_fields_of_every_kind_of_link() -> None:
    schema = json.loads((ROOT / "docs" / "assets" / "params.schema.json").read_text(encoding="utf-8"))
    check_one = jsonschema.Draft202012Validator(schema)
    kinds = set()
    for directory in sorted((SUITE / "good").iterdir()):
        params = json.loads((directory / "params.json").read_text(encoding="utf-8"))
        link = params["link"]
        kinds.add(link["kind"])
        for field in link:
            less = {name: value for name, value in link.items() if name != field}
            assert not check_one.is_valid({**params, "link": less}), f"{link['kind']} without {field}"
        assert not check_one.is_valid({**params, "link": {**link, "more": 1}}), link["kind"]
    described = [each["$ref"].rpartition("/")[2] for each in schema["$defs"]["link"]["oneOf"]]
    assert kinds == set(described)
    assert all(schema["$defs"][kind]["description"] for kind in described)


def test_every_method_is_in_the_suite() -> None:
    from slc_ops.methods import METHODS

    assert {f"good/{name}" for name in METHODS} <= {entry["directory"] for entry in ENTRIES}


def _inputs(vectors: list[dict[str, Any]], columns: set[str]) -> list[str]:
    """The given columns of each vector, without an order; numbers to nine digits, on any machine."""
    found = [{name: each[name] for name in sorted(columns)} for each in vectors]
    return sorted(
        json.dumps({k: float(f"{v:.9g}") if isinstance(v, float) else v for k, v in each.items()})
        for each in found
    )


@pytest.mark.parametrize("directory", sorted(each.name for each in (SUITE / "good").iterdir()))
def test_the_golden_vectors_of_a_stored_set_are_the_stored_ones(directory: str) -> None:
    parameters = storage.read(SUITE / "good" / directory)
    stored = json.loads((SUITE / "good" / directory / "golden.json").read_text(encoding="utf-8"))["vectors"]
    found = golden_vectors(parameters)
    for columns in (set(stored[0]) - {"time", "probability"}, {"time"}):
        assert _inputs(found, columns) == _inputs(stored, columns)
    for given, answer in ((each, each["probability"]) for each in found):
        assert (answer is None) == (given["time"] is None and directory in ("platt_time", "time-covariate"))
