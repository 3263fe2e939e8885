"""The JSON Schema of the deployments file accepts all valid files and rejects what an editor can detect."""

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from click.testing import CliRunner

from slc_ops.cli import app
from slc_ops.settings.deployments import Deployments, json_schema

ROOT = Path(__file__).parents[2]
PAGES = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md"]


def as_json(document: Any) -> Any:
    """A document as an editor sees it: YAML dates are text."""
    return json.loads(json.dumps(document, default=str))


def examples() -> list[Any]:
    """Every deployments file in the docs, and every ``source`` block inside a complete entry."""
    found = [pytest.param(yaml.safe_load((ROOT / "dags/deployments.yaml").read_text()), id="demo")]
    for page in PAGES:
        for number, block in enumerate(re.findall(r"```ya?ml\n(.*?)```", page.read_text(), re.DOTALL)):
            read = yaml.safe_load(block)
            if "source" in read:
                read = {"deployments": {"example": read}}
            if "deployments" in read:
                found.append(pytest.param(read, id=f"{page.name}-{number}"))
    return found


@pytest.fixture(scope="module")
def validator() -> jsonschema.Draft202012Validator:
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.mark.parametrize("example", examples())
def test_every_example_of_the_docs_passes(example: Any, validator: jsonschema.Draft202012Validator) -> None:
    assert [error.message for error in validator.iter_errors(as_json(example))] == []


@pytest.mark.parametrize(
    ("change", "refused"),
    [
        ({"methods": ["platt", "slc_xyz"]}, "slc_xyz"),
        ({"evidence_window": 4}, "evidence_window"),
        ({"evidence_windows": 0}, "less than the minimum"),
        ({"label_lag": "three days"}, "three days"),
        ({"gate": "maybe"}, "maybe"),
    ],
)
def test_the_schema_detects_a_typo(
    change: dict[str, Any], refused: str, validator: jsonschema.Draft202012Validator
) -> None:
    entry = {"source": {"kind": "lake", "path": "lake"}, **change}
    found = [error.message for error in validator.iter_errors({"deployments": {"school": entry}})]
    assert refused in " ".join(found)
    with pytest.raises(ValueError, match="school"):
        Deployments.model_validate({"deployments": {"school": entry}})


def test_the_schema_file_of_the_demo_equals_the_output_of_the_command(tmp_path: Path) -> None:
    printed = CliRunner().invoke(app, ["schema"], catch_exceptions=False).output
    assert (ROOT / "dags/deployments.schema.json").read_text() == printed, "run make docs-tables"
    written = CliRunner().invoke(app, ["schema", "--out", str(tmp_path / "schema.json")])
    assert (written.exit_code, (tmp_path / "schema.json").read_text()) == (0, printed)
    first = (ROOT / "dags/deployments.yaml").read_text().splitlines()[0]
    assert first == "# yaml-language-server: $schema=deployments.schema.json"
