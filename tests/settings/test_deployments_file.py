"""The deployments file: every error names the file, the line and the rule."""

from pathlib import Path
from textwrap import dedent

import pytest

from slc_ops.base.errors import SettingsError
from slc_ops.settings.deployments import Deployment
from slc_ops.settings.deployments_file import load_deployments, read_deployments
from slc_ops.settings.environment import Installation
from slc_ops.settings.sources import FilesSource, LakeSource, SimulatorSource, SqlSource

GOOD = """\
deployments:
  maths:
    source: {kind: lake, path: lake/maths}
    gate: auto
"""
ENTRY = """\
deployments:
  maths:
    source:
      kind: lake
      path: lake/maths
"""


def write(path: Path, text: str) -> Path:
    path.write_text(dedent(text))
    return path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "deployments.yaml"


def refusal(file: Path, text: str) -> str:
    """The error without the path."""
    with pytest.raises(SettingsError) as error:
        load_deployments(write(file, text))
    assert "\n" not in str(error.value)
    return str(error.value).replace(str(file), "FILE")


def test_defaults_are_applied(file: Path) -> None:
    (deployment,) = load_deployments(write(file, GOOD)).values()
    assert deployment == Deployment(source=LakeSource(path="lake/maths"), gate="auto")


def test_every_kind_of_source_is_accepted(file: Path) -> None:
    text = """\
    deployments:
      a:
        source: {kind: lake, path: "s3://b/lake", endpoint: "http://127.0.0.1:9", partition: {key: day}}
      b:
        source:
          kind: sql
          url_env: LOGS_URL
          query: select * from logs where at >= :window_start and at < :window_end
      c:
        source: {kind: files, paths: ["*.csv"], columns: {item_id: pid}, naive_time_zone: Europe/Berlin}
      d:
        source: {kind: simulator, platform: {users: 10}}
    """
    kinds = [type(deployment.source) for deployment in load_deployments(write(file, text)).values()]
    assert kinds == [LakeSource, SqlSource, FilesSource, SimulatorSource]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("    evidence_windows: 0\n", "FILE:6: deployments.maths.evidence_windows: Input should be"),
        ("    evidence_window: 3\n", "there is no such key; did you mean 'evidence_windows'?"),
        ("    gate: always\n", "FILE:6: deployments.maths.gate: Input should be 'auto', 'manual' or 'never'"),
        ("    methods:\n      - base\n      - pl\n", "FILE:8: deployments.maths.methods.1: no method 'pl';"),
        ("    methods: [slc-eb]\n", "slc_eb, slc_mix; did you mean 'slc_eb'?"),
        ("    methods: [base, base]\n", "FILE:6: deployments.maths.methods: lists 'base' twice"),
        ("    quality:\n      rows: {warn: [1]}\n", "FILE:7: deployments.maths.quality.rows.warn"),
        ("    start: 2026-01-05\n    end: 2026-01-05\n", "end 2026-01-05 must lie after start 2026-01-05"),
        ("      columns: {itemid: pid}\n", "FILE:6: deployments.maths.source.lake.columns: the log has"),
        ("      naive_time_zone: CET+1\n", "FILE:6: deployments.maths.source.lake.naive_time_zone"),
        ("      endpoint: http://127.0.0.1\n", "endpoint is for paths with s3:// or gs://"),
    ],
)  # fmt: skip
def test_a_broken_rule_is_named_with_its_line(file: Path, lines: str, expected: str) -> None:
    assert expected in refusal(file, ENTRY + lines)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "FILE:1: expected one key 'deployments'"),
        ("deployment: {}\n", "FILE:1: expected one key 'deployments'"),
        ("deployments: [a]\n", "FILE:1: 'deployments' must map names"),
        ("deployments:\n  a: {source: [\n", "FILE:3: this is not YAML"),
        ("deployments:\n  a: &a {source: *b}\n", "this is not YAML"),
        (
            GOOD + "  maths:\n    source: {kind: lake, path: x}\n",
            "FILE:5: the key 'maths' is already in line 2",
        ),
        ("deployments:\n  a:\n", "FILE:2: deployments.a: Input should be a valid dictionary"),
        ("deployments:\n  Maths Two:\n    source: {kind: lake, path: x}\n", "FILE:2: deployments.Maths Two:"),
        ("deployments:\n  ../x:\n    source: {kind: lake, path: x}\n", "is not a deployment name"),
        (
            "deployments:\n  a:\n    source: {path: x}\n",
            "FILE:3: deployments.a.source: Unable to extract tag",
        ),
        (
            "deployments:\n  a:\n    source: {kind: kafka}\n",
            "'lake', 'delta', 'iceberg', 'sql', 'duckdb', 'files', 'simulator'",
        ),
        ("deployments:\n  a: {gate: auto}\n", "FILE:2: deployments.a.source: Field required"),
    ],
)
def test_a_broken_file_is_refused_with_the_position(file: Path, text: str, expected: str) -> None:
    assert expected in refusal(file, text)


@pytest.mark.parametrize(
    "source",
    [
        "{kind: lake, path: 's3://key:hunter2@bucket/lake'}",
        "{kind: lake, path: 's3://bucket/lake?access_key=a&secret_key=hunter2'}",
        "{kind: lake, path: lake, password: hunter2}",
        "{kind: sql, query: 'select :window_start, :window_end', url: 'postgresql://me:hunter2@host/db'}",
    ],
)
def test_a_secret_in_the_file_is_refused_and_not_repeated(file: Path, source: str) -> None:
    message = refusal(file, f"deployments:\n  a:\n    source: {source}\n")
    assert "hunter2" not in message


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("select * from logs", "does not bind :window_start"),
        ("select * from logs where at >= :window_start", "does not bind :window_end"),
        ("select at::window_start, :window_end from logs", "does not bind :window_start"),
    ],
)
def test_a_query_must_bind_both_bounds(file: Path, query: str, words: str) -> None:
    text = f"deployments:\n  a:\n    source: {{kind: sql, url_env: X, query: {query!r}}}\n"
    assert words in refusal(file, text)


def test_a_database_must_be_named_exactly_once(file: Path) -> None:
    query = "'select :window_start, :window_end'"
    for naming in ("", ", url_env: A, connection: b"):
        text = f"deployments:\n  a:\n    source: {{kind: sql, query: {query}{naming}}}\n"
        assert "either url_env or connection" in refusal(file, text)


def test_one_broken_entry_leaves_the_others_usable(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(file, GOOD + "  broken:\n    source: {kind: lake, path: x}\n    evidence_windows: none\n")
    good, broken = read_deployments(file)
    assert list(good) == ["maths"]
    (entry,) = broken
    assert entry.name == "broken"
    assert str(entry).startswith(
        f"{file}:7: deployments.broken.evidence_windows: Input should be a valid integer"
    )
    monkeypatch.setenv("SLC_OPS_DEPLOYMENTS", str(file))
    installation = Installation.from_environment()
    assert installation.deployment("maths").gate == "auto"
    with pytest.raises(SettingsError, match=r":7: deployments\.broken\.evidence_windows"):
        installation.deployment("broken")
    with pytest.raises(SettingsError, match="no deployment 'else'"):
        installation.deployment("else")


def test_all_errors_of_an_entry_are_reported_together(file: Path) -> None:
    message = refusal(file, ENTRY + "    evidence_windows: 0\n    gate: sometimes\n")
    assert "FILE:6: deployments.maths.evidence_windows" in message
    assert "line 7: deployments.maths.gate" in message


def test_an_unreadable_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="No such file"):
        load_deployments(tmp_path / "none.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"deployments: {\xe9}")
    with pytest.raises(SettingsError, match="not UTF-8"):
        load_deployments(tmp_path / "latin.yaml")


def test_a_file_without_deployments_is_valid(file: Path) -> None:
    assert load_deployments(write(file, "deployments:\n")) == {}


def test_anchors_and_merges_are_supported(file: Path) -> None:
    text = """\
    deployments:
      a: &base
        source: {kind: lake, path: x}
        evidence_windows: 2
      b:
        <<: *base
        gate: never
    """
    found = load_deployments(write(file, text))
    assert (found["b"].evidence_windows, found["b"].gate) == (2, "never")


def test_recursive_yaml_is_refused(file: Path) -> None:
    assert "deployments.a" in refusal(file, "deployments:\n  a: &a\n    source: *a\n")


def test_the_file_of_the_repository_is_valid() -> None:
    path = Path(__file__).parents[2] / "dags" / "deployments.yaml"
    assert "demo" in load_deployments(path)


def test_a_folder_gives_the_entries_of_all_its_files(tmp_path: Path) -> None:
    write(tmp_path / "a.yaml", GOOD)
    write(tmp_path / "b.yml", GOOD.replace("maths", "physics"))
    write(tmp_path / "notes.txt", "no deployments")
    good, broken = read_deployments(tmp_path)
    assert (sorted(good), broken) == (["maths", "physics"], [])


def test_a_broken_file_of_a_folder_does_not_affect_the_others(tmp_path: Path) -> None:
    write(tmp_path / "a.yaml", GOOD)
    write(tmp_path / "b.yaml", "deployments: [")
    good, (entry,) = read_deployments(tmp_path)
    assert sorted(good) == ["maths"]
    assert str(entry).startswith(f"{tmp_path / 'b.yaml'}:1: this is not YAML")


def test_a_name_defined_in_two_files_is_used_from_neither(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        write(tmp_path / f"{name}.yaml", GOOD)
    good, broken = read_deployments(tmp_path)
    assert good == {}
    assert [str(entry) for entry in broken] == [
        f"{tmp_path / name}:1: deployments.maths: a.yaml has this name, too; rename one of them"
        for name in ("b.yaml", "c.yaml")
    ]


def test_a_folder_without_files_names_the_pattern(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"holds no file \*\.yaml; write one, or set SLC_OPS_DEPLOYMENTS"):
        read_deployments(tmp_path)
