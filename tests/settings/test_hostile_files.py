"""An invalid value breaks its own entry; a YAML bomb is refused before it is expanded."""

from pathlib import Path

import pytest
from pydantic import BaseModel

from slc_ops.base.errors import SettingsError
from slc_ops.settings.blocks import Decision
from slc_ops.settings.deployments import Deployment
from slc_ops.settings.deployments_file import read_deployments
from slc_ops.settings.quality import Band, Limit, Quality

SOURCE = "    source: {kind: lake, path: x}\n"


def broken_in_the_middle(tmp_path: Path, lines: str) -> str:
    """The error of an entry between two valid ones, which stay usable."""
    file = tmp_path / "deployments.yaml"
    file.write_text(f"deployments:\n  first:\n{SOURCE}  broken:\n{lines}  last:\n{SOURCE}")
    good, broken = read_deployments(file)
    assert list(good) == ["first", "last"]
    (entry,) = broken
    assert entry.name == "broken"
    assert "\n" not in str(entry)
    return str(entry).replace(str(file), "FILE")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("start: 2026-02-30", "FILE:6: deployments.broken: '2026-02-30' cannot be read: day is out of range"),
        ("start: 2026-13-01", "month must be in 1..12"),
        ("start: 2026-01-05T25:00:00Z", "hour must be in 0..23"),
        ("start: 0001-01-01", "should be greater than or equal to 1970-01-01"),
        ("end: 9999-12-31", "should be less than or equal to 2200-01-01"),
        ("approval_hours: .inf", "deployments.broken.approval_hours: Input should be a finite number"),
        ("approval_hours: -.inf", "finite number"),
        ("approval_hours: .nan", "finite number"),
        ("approval_hours: 1e300", "approval_hours"),
        ("approval_hours: 1.0e+300", "less than or equal to 8760"),
        ("approval_hours: -1", "greater than 0"),
        ("link_windows: 1000000000", "less than or equal to 520"),
        (f"evidence_windows: {'9' * 5000}", "a value of 5000 characters cannot be read"),
        (f"evidence_windows: {'9' * 400}", "deployments.broken.evidence_windows"),
        (f"prior_var: {'9' * 400}", "deployments.broken.prior_var"),
        ("prior_var: -1.0", "greater than 0"),
        ("evidence_windows: 2.5", "valid integer"),
        ("evidence_windows: 1:99:1", "deployments.broken.evidence_windows"),
        ("evidence_windows: yes", "deployments.broken: evidence_windows must be a number, found true"),
        ("schedule: 0 0 31 2 *", "no schedule"),
        ("schedule: '* * *'", "no schedule"),
        ("owner: !!binary 'é'", "failed to convert base64 data into ascii"),
        ("owner: !!binary aGVsbG8=", "owner must be plain text, found binary data"),
        ("owner: !!python/object/apply:os.system [ls]", "could not determine a constructor"),
        ("owner: !!timestamp nonsense", "cannot be read"),
        ("owner: !!int ''", "cannot be read"),
        ("{a: b}: c", "deployments.broken"),
        ("[a]: c", "deployments.broken"),
        ("1: c", "deployments.broken"),
        ("<<: [1]", "expected a mapping for merging"),
        (
            "evidence_windows: 3\n    evidence_windows: 4",
            "FILE:7: deployments.broken: the key 'evidence_windows' is already in line 6",
        ),
        ("decision: {prior_vars: [-1.0]}", "greater than 0"),
        ("decision: {time_bins: [1]}", "greater than or equal to 2"),
        ("decision: {replicates: 1000000000000}", "less than or equal to"),
        ("quality: {rows: {warn: [2.0, 0.5]}}", "the lower bound 2 lies above the upper bound 0.5"),
        ("quality: {silent_hours: {warn: 5.0, stop: 1.0}}", "warn 5 lies above stop 1"),
    ],
)  # fmt: skip
def test_an_invalid_value_breaks_its_own_entry(tmp_path: Path, line: str, words: str) -> None:
    assert words in broken_in_the_middle(tmp_path, f"{SOURCE}    {line}\n")


@pytest.mark.parametrize("value", [".nan", ".inf", "-.inf"])
@pytest.mark.parametrize(
    ("block", "part"),
    [("", Deployment), ("decision", Decision), ("quality", Quality)],
)
def test_no_number_may_be_nan_or_infinite(
    tmp_path: Path, block: str, part: type[BaseModel], value: str
) -> None:
    tried = 0
    for name, field in part.model_fields.items():
        default = field.get_default(call_default_factory=True)
        if isinstance(default, bool) or not isinstance(default, (int, float, Limit, Band)):
            continue
        written = {
            Limit: f"{{warn: {value}}}",
            Band: f"{{stop: [0.5, {value}]}}",
        }.get(type(default), value)
        line = f"    {block}: {{{name}: {written}}}\n" if block else f"    {name}: {written}\n"
        assert f"{name}" in broken_in_the_middle(tmp_path, SOURCE + line)
        tried += 1
    assert tried > 1


@pytest.mark.parametrize("value", [".nan", ".inf"])
def test_numbers_of_the_simulator_must_be_finite_too(tmp_path: Path, value: str) -> None:
    lines = f"    source: {{kind: simulator, platform: {{bias_sd: {value}}}}}\n"
    assert "bias_sd must be a finite number" in broken_in_the_middle(tmp_path, lines)


def test_a_duplicated_entry_is_not_used_and_the_others_are(tmp_path: Path) -> None:
    file = tmp_path / "deployments.yaml"
    file.write_text(f"deployments:\n  a:\n{SOURCE}  b:\n{SOURCE}  a:\n{SOURCE}")
    good, broken = read_deployments(file)
    assert list(good) == ["b"]
    assert [str(entry) for entry in broken] == [f"{file}:6: the key 'a' is already in line 2"]


@pytest.mark.parametrize(("key", "name"), [("1", "1"), ("yes", "yes"), ("2026-01-05", "2026-01-05")])
def test_a_name_is_read_as_written(tmp_path: Path, key: str, name: str) -> None:
    file = tmp_path / "deployments.yaml"
    file.write_text(f"deployments:\n  {key}:\n{SOURCE}")
    good, broken = read_deployments(file)
    assert [*good, *(entry.name for entry in broken)] == [name]


def test_an_entry_with_a_name_that_is_not_text_is_broken(tmp_path: Path) -> None:
    file = tmp_path / "deployments.yaml"
    file.write_text(f"deployments:\n  a:\n{SOURCE}  [b, c]: {{}}\n  ? {{d: e}}\n  : {{}}\n")
    good, broken = read_deployments(file)
    assert list(good) == ["a"]
    assert [str(entry) for entry in broken] == [
        f"{file}:{line}: a deployment's name must be plain text" for line in (4, 5)
    ]


def bomb(levels: int, width: int) -> str:
    """Aliases of aliases: ``width ** levels`` values when expanded."""
    lines = [f"deployments:\n  a:\n{SOURCE}    notify:\n      l0: &l0 [x, x]"]
    for k in range(1, levels):
        lines.append(f"      l{k}: &l{k} [{', '.join([f'*l{k - 1}'] * width)}]")
    return "\n".join(lines) + f"\n  b:\n{SOURCE}"


def test_an_alias_bomb_breaks_only_its_own_entry(tmp_path: Path) -> None:
    file = tmp_path / "deployments.yaml"
    file.write_text(bomb(levels=12, width=9))
    good, broken = read_deployments(file)
    assert list(good) == ["b"]
    assert "values with its aliases written out" in str(broken[0])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[" * 100_000, "at most 20 levels"),
        ("{a: " * 10_000, "at most 20 levels"),
        ("deployments:\n" + "\n".join(f"{' ' * k}a:" for k in range(1, 400)), "at most 20 levels"),
        ("deployments: [" + "a," * 60_000 + "]", "at most 50,000 values"),
        ("deployments: {a: &a 1, b: [" + "*a," * 60_000 + "]}", "at most 50,000 values"),
        ("#" * (2 << 20), "it has more than 1 MB"),
    ],
    ids=["lists", "mappings", "indents", "wide", "aliases", "large"],
)
def test_a_file_that_is_too_large_is_refused(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "deployments.yaml"
    file.write_text(text)
    with pytest.raises(SettingsError, match=words):
        read_deployments(file)


@pytest.mark.parametrize(
    "data",
    [
        b"deployments:\n\ta: {}\n",
        b"deployments:\n  a: \x00\n",
        b"\x7fELF\x02\x01\x01",
        b"deployments: {a: {}}\n---\ndeployments: {}\n",
        b"%YAML 9.9\n---\ndeployments: {}\n",
        b"deployments: *nobody\n",
        b"deployments: {a: 'unclosed\n",
    ],
)
def test_invalid_yaml_gives_one_line_with_the_file_name(tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "deployments.yaml"
    file.write_bytes(data)
    with pytest.raises(SettingsError) as refused:
        read_deployments(file)
    assert str(file) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_entries_that_refer_to_each_other_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "deployments.yaml"
    file.write_text(f"deployments:\n  a: &a\n    notify: {{x: *a}}\n  b:\n    <<: *a\n  c:\n{SOURCE}")
    good, broken = read_deployments(file)
    assert list(good) == ["c"]
    assert ["refers to itself" in str(entry) for entry in broken] == [True, True]
