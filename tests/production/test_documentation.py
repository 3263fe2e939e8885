"""docs/operations.md names every setting, with the default that the code has, and every command."""

import ast
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel

from slc_ops.settings import deployments as settings
from slc_ops.settings import sources as source_settings
from slc_ops.settings.deployments import Deployment

ROOT = Path(__file__).parent.parent.parent
TEXT = (ROOT / "docs" / "operations.md").read_text()
COMPOSE = (ROOT / "docker-compose.yaml").read_text()
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load(COMPOSE)["services"]


def table(head: str) -> dict[str, str]:
    """First column → second column, without code marks, of every table whose header begins with ``head``."""
    rows: dict[str, str] = {}
    for block in re.findall(rf"^\| {re.escape(head)} \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", TEXT, re.MULTILINE):
        for line in block.splitlines():
            first, second = [cell.strip().strip("`") for cell in line.strip("|").split("|")[:2]]
            rows[first] = second
    return rows


VARIABLES = table("variable")


def test_every_variable_of_the_compose_file_is_there_with_its_default() -> None:
    defaults = {
        name: default
        for name, operator, default in re.findall(r"\$\{(\w+)(:[-?])([^}]*)\}", COMPOSE)
        if operator == ":-"
    }
    assert {name: VARIABLES.get(name) for name in defaults} == defaults


def test_every_secret_of_the_compose_file_is_there_and_nothing_else() -> None:
    section = TEXT.split("### Secrets")[1].split("### Addresses")[0]
    assert set(re.findall(r"^\| `(\w+)`", section, re.MULTILINE)) == set(re.findall(r"\$\{(\w+):\?", COMPOSE))


def test_every_variable_that_the_code_reads_is_there() -> None:
    read = set()
    for path in [p for folder in ("slc_ops", "dags", "plugins") for p in (ROOT / folder).rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                read.update(re.findall(r"^SLC_OPS_[A-Z_]*[A-Z]$", node.value))
    assert {"SLC_OPS_HOME", "SLC_OPS_LEDGER_URL"} <= read
    assert read <= set(VARIABLES), sorted(read - set(VARIABLES))


PARTS: list[tuple[str, type[BaseModel]]] = [
    ("`deployments.<name>.`", Deployment),
    ("`quality.`", settings.Quality),
    ("`decision.`", settings.Decision),
    ("`notify.`", settings.Notify),
    ("`source.`", source_settings.LakeSource),
    ("`source.`", source_settings.SqlSource),
    ("`source.`", source_settings.FilesSource),
    ("`source.`", source_settings.SimulatorSource),
]


@pytest.mark.parametrize(("head", "part"), PARTS, ids=lambda value: getattr(value, "__name__", None))
def test_every_key_of_the_deployments_file_is_there_with_its_default(
    head: str, part: type[BaseModel]
) -> None:
    documented = table(head)
    for name, field in part.model_fields.items():
        assert name in documented, f"{head}{name}"
        if name == "kind" or documented[name] == "below":
            continue
        default = field.get_default(call_default_factory=True)
        expected = "needed" if field.is_required() else shown(default)
        assert documented[name] == expected, f"{head}{name}"


def shown(value: Any) -> str:
    """A default as the tables write it."""
    if value is None:
        return "unset"
    if isinstance(value, BaseModel):
        return ", ".join(f"{name} {limit}" for name, limit in value if limit is not None)
    if isinstance(value, tuple):
        return "[" + ", ".join(str(each) for each in value) + "]"
    return str(value).lower() if isinstance(value, bool) else str(value)


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_is_in_the_table_with_its_command(name: str) -> None:
    row = next(line for line in TEXT.splitlines() if line.startswith(f"| `{name}` |"))
    if "build" in SERVICES[name] and "command" in SERVICES[name]:
        words = [*SERVICES[name].get("entrypoint", []), *SERVICES[name]["command"]]
        assert f"`{' '.join(words)}`" in row


def test_every_service_of_ours_is_started_in_the_instructions_without_docker() -> None:
    section = TEXT.split("### Without Docker")[1].split("## Settings")[0]
    started = set(re.findall(r"slc_ops\.production service ([a-z-]+)", section))
    assert started == {n for n, entry in SERVICES.items() if "build" in entry and "command" in entry}


def test_docker_and_host_back_up_and_restore_the_same_way() -> None:
    for verb, options in (("pg_dump", "--format=custom"), ("pg_restore", "--clean --if-exists --create")):
        lines = [line for line in TEXT.splitlines() if f"{verb} " in line]
        assert len(lines) == 2
        assert all(options in line for line in lines)


def test_every_metric_is_there() -> None:
    source = (ROOT / "slc_ops" / "observability" / "metrics.py").read_text()
    assert set(re.findall(r'"(slc_ops_\w+)"', source)) == set(table("metric"))


def test_every_link_inside_leads_somewhere() -> None:
    heads = re.findall(r"^#+ (.+)$", TEXT, re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", head).lower().replace(" ", "-") for head in heads}
    assert set(re.findall(r"\]\(#([\w-]+)\)", TEXT)) <= anchors
