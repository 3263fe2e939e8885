"""The operator pages list every setting with its default, and every command."""

import ast
import configparser
import re
import sqlite3
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml
from pydantic import BaseModel, Field

from scripts.settings_tables import block_table, tables, written
from slc_ops import __version__
from slc_ops.base.window import Window
from slc_ops.intake.extract import extract
from slc_ops.settings.blocks import Decision, Notify
from slc_ops.settings.deployments import Deployment
from slc_ops.settings.environment import GROUPS
from slc_ops.settings.quality import Quality
from slc_ops.settings.sources import SOURCES, SqlSource
from tests.pages import blocks, to_run

ROOT = Path(__file__).parent.parent.parent
SETTINGS = (ROOT / "docs" / "settings.md").read_text()
INSTALLATION = (ROOT / "docs" / "installation.md").read_text()
RUNBOOKS = (ROOT / "docs" / "runbooks.md").read_text()
TEXT = "\n".join([SETTINGS, INSTALLATION, RUNBOOKS, (ROOT / "docs" / "observability.md").read_text()])
SOURCES_PAGE = (ROOT / "docs" / "sources.md").read_text()
COMPOSE = (ROOT / "docker-compose.yaml").read_text()
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load(COMPOSE)["services"]


def table(head: str) -> dict[str, str]:
    """First column → second column, without code marks, of every table whose header starts with ``head``."""
    rows: dict[str, str] = {}
    for block in re.findall(rf"^\| {re.escape(head)} \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", TEXT, re.MULTILINE):
        for line in block.splitlines():
            first, second = [cell.strip().strip("`") for cell in line.strip("|").split("|")[:2]]
            rows[first] = second
    return rows


VARIABLES = table("variable")


def test_every_variable_of_the_compose_file_is_listed_with_its_default() -> None:
    defaults = {
        name: default
        for name, operator, default in re.findall(r"\$\{(\w+)(:[-?])([^}]*)\}", COMPOSE)
        if operator == ":-"
    }
    assert {name: VARIABLES.get(name) for name in defaults} == defaults


def test_exactly_the_secrets_of_the_compose_file_are_listed() -> None:
    section = SETTINGS.split("## Secrets")[1].split("## Addresses")[0]
    assert set(re.findall(r"^\| `(\w+)`", section, re.MULTILINE)) == set(re.findall(r"\$\{(\w+):\?", COMPOSE))


def test_every_variable_read_by_the_code_is_listed() -> None:
    read = set()
    for path in [p for folder in ("slc_ops", "dags") for p in (ROOT / folder).rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                read.update(re.findall(r"^SLC_OPS_[A-Z_]*[A-Z]$", node.value))
    assert {"SLC_OPS_HOME", "SLC_OPS_LEDGER_URL"} <= read
    assert read <= set(VARIABLES), sorted(read - set(VARIABLES))


def test_the_tables_of_settings_match_the_fields() -> None:
    """Every column: name, default, type, meaning. ``make docs-tables`` writes them."""
    assert written(SETTINGS) == SETTINGS, "run make docs-tables"
    assert written(SOURCES_PAGE, "sources.md") == SOURCES_PAGE, "run make docs-tables"


def cells(table: str) -> dict[str, list[str]]:
    """First column → the others."""
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines()[2:]]
    return {row[0].strip("`"): row[1:] for row in rows}


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("deployment", [Deployment]),
        ("quality", [Quality]),
        ("decision", [Decision]),
        ("notify", [Notify]),
    ],
)
def test_every_key_of_the_deployments_file_is_listed_with_its_meaning(
    name: str, parts: list[type[BaseModel]]
) -> None:
    documented = cells(tables()[name])
    assert set(documented) == {key for part in parts for key in part.model_fields}
    for part in parts:
        for key, field in part.model_fields.items():
            assert field.description, f"{part.__name__}.{key} has no description"
            assert documented[key][-1] == field.description
            assert all(documented[key]), f"{key} has an empty cell"


@pytest.mark.parametrize("source", SOURCES)
def test_every_key_of_a_source_is_listed_with_its_meaning(source: type[BaseModel]) -> None:
    kind = source.model_fields["kind"].default
    documented = cells(tables()["source"]) | cells(tables()[f"source {kind}"])
    assert set(documented) == set(source.model_fields)
    for key, field in source.model_fields.items():
        assert documented[key][-1] == field.description
        assert all(documented[key]), f"{key} has an empty cell"


def test_a_changed_default_type_or_meaning_is_detected() -> None:
    class Changed(Quality):
        row_budget: float = Field(default=0.01, ge=0, lt=1, description="another meaning")

    before, after = (cells(block_table("quality.", part)) for part in (Quality, Changed))
    assert after["row_budget"] == ["`0.01`", "number ≥ 0, < 1", "another meaning"]
    assert {key for key in before if before[key] != after[key]} == {"row_budget"}


def test_every_variable_read_has_a_documented_default() -> None:
    named = {str(f.validation_alias) for group in GROUPS for f in group.model_fields.values()}
    assert named <= set(VARIABLES), sorted(named - set(VARIABLES))


def test_the_documented_query_gives_the_rows_of_the_window(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (query,) = re.findall(r"`(SELECT [^`]*:window_end)`", SOURCES_PAGE)
    monkeypatch.setenv("LOGS_URL", f"sqlite:///{tmp_path}/logs.db")
    with sqlite3.connect(tmp_path / "logs.db") as connection:
        connection.execute(
            "create table answers (event_id, event_time, user_id, item_id, label integer, logit real)"
        )
        for day in ("2026-01-04", "2026-01-05", "2026-01-11", "2026-01-12"):
            row = (day, f"{day}T00:00:00+00:00", "u", "i", 1, 0.5)
            connection.execute("insert into answers values (?, ?, ?, ?, ?, ?)", row)
    deployment = Deployment(source=SqlSource(query=query, url_env="LOGS_URL"))
    manifest = extract(deployment, Window.parse("2026-01-05/2026-01-12"), tmp_path / "windows")
    assert pq.read_table(manifest.path)["event_id"].to_pylist() == ["2026-01-05", "2026-01-11"]


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_is_listed_with_its_command(name: str) -> None:
    row = next(line for line in TEXT.splitlines() if line.startswith(f"| `{name}` |"))
    if "build" in SERVICES[name] and "command" in SERVICES[name]:
        words = [*SERVICES[name].get("entrypoint", []), *SERVICES[name]["command"]]
        assert f"`{' '.join(words)}`" in row


def test_every_service_of_ours_is_started_in_the_instructions_without_docker() -> None:
    section = INSTALLATION.split("### Without Docker")[1].split("\n## ")[0]
    started = set(re.findall(r"slc_ops\.production service ([a-z-]+)", section))
    assert started == {n for n, entry in SERVICES.items() if "build" in entry and "command" in entry}


def test_docker_and_host_back_up_and_restore_the_same_way() -> None:
    for verb, options in (("pg_dump", "--format=custom"), ("pg_restore", "--clean --if-exists --create")):
        lines = [line for line in TEXT.splitlines() if f"{verb} " in line]
        assert len(lines) == 2
        assert all(options in line for line in lines)


def test_the_unit_for_systemd_starts_a_service_as_the_page_says() -> None:
    (unit,) = to_run("docs/installation.md", "ini")
    read = configparser.ConfigParser(interpolation=None)
    read.optionxform = str  # type: ignore[assignment,method-assign]  # as its documentation says
    read.read_string(unit.text)
    started = read["Service"]["ExecStart"].removeprefix(read["Service"]["WorkingDirectory"] + "/")
    assert f"$ {started.replace('%i', 'mlflow')}" in TEXT
    assert read["Service"]["ReadWritePaths"] == read["Service"]["WorkingDirectory"] + "/var"


def test_the_kubernetes_values_have_our_versions() -> None:
    (block,) = [each for each in blocks("docs/installation.md") if "defaultAirflowTag" in each.text]
    values = yaml.safe_load(block.text)
    lock = (ROOT / "requirements.txt").read_text()
    assert values["defaultAirflowTag"] == __version__
    assert f"\napache-airflow=={values['airflowVersion']} " in lock
    compose = yaml.safe_load(COMPOSE)["services"]["airflow-apiserver"]["environment"]
    for each in values["env"]:
        if each["name"] in compose:
            assert str(compose[each["name"]]) == each["value"], each["name"]


def labels_of_metrics() -> dict[str, set[str]]:
    """Name of a gauge → the labels of its values, from the source of the module."""
    module = ast.parse((ROOT / "slc_ops" / "observability" / "metrics.py").read_text())
    found: dict[str, set[str]] = {}
    for node in ast.walk(module):
        if isinstance(node, ast.Call) and (adds := ast.unparse(node.func)) in ("add_to", "add"):
            name, given = ast.literal_eval(node.args[0]), {"deployment"} if adds == "add" else set()
            found.setdefault(name, set()).update(given, (str(each.arg) for each in node.keywords))
    return found


def test_every_metric_is_listed_with_its_labels() -> None:
    made = labels_of_metrics()
    assert len(made) >= 15
    documented = {name: set(filter(None, labels.split(", "))) for name, labels in table("metric").items()}
    assert documented == made


@pytest.mark.parametrize("head", ["variable", "metric", "service"])
def test_every_row_has_a_meaning(head: str) -> None:
    may_be_empty = {"metric": {1}, "service": {2}}.get(head, set())  # no labels; started by its image
    blocks = re.findall(rf"^\| {head} \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", TEXT, re.MULTILINE)
    assert blocks
    for line in "".join(blocks).splitlines():
        cells_of_line = [cell.strip() for cell in line.strip("|").split("|")]
        assert all(cell or k in may_be_empty for k, cell in enumerate(cells_of_line)), line


def test_every_example_of_a_source_is_valid() -> None:
    found = [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", SOURCES_PAGE, re.DOTALL)]
    kinds = [Deployment.model_validate(example).source.kind for example in found]
    assert kinds == [source.model_fields["kind"].default for source in SOURCES]
    heads = re.findall(r"^## (.+)$", SOURCES_PAGE, re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", head).lower().replace(" ", "-") for head in heads}
    assert set(re.findall(r"\]\(#([\w-]+)\)", SOURCES_PAGE)) == anchors
