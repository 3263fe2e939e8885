"""The help is complete, and a mistyped word gets a suggestion."""

import pytest
from click.testing import CliRunner, Result

from slc_ops.cli import COMMANDS, app, main


def called(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments, terminal_width=80)


def test_without_arguments_the_help_is_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["slc-ops"])
    with pytest.raises(SystemExit) as left:
        main()
    shown = capsys.readouterr().err
    assert left.value.code == 2
    assert max(map(len, shown.splitlines())) <= 100
    assert all(f"\n  {name} " in shown for name in COMMANDS)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [(["refrsh"], "refresh"), (["Compare"], "compare"), (["rename_items"], "rename-items"),
     (["control", "movielen"], "movielens")],
)  # fmt: skip
def test_a_mistyped_command_gets_a_suggestion(typed: list[str], meant: str) -> None:
    assert f"no command {typed[-1]!r}; did you mean {meant!r}?" in called(*typed).output


def test_an_unknown_command_without_a_similar_one_gets_the_list() -> None:
    assert "expected one of demo, simulate" in called("zzz").output


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_its_options(command: str) -> None:
    shown = called(command, "--help")
    assert shown.exit_code == 0
    assert "--json" in shown.output or command in ("control", "schema")


@pytest.mark.parametrize("method", ["SLC_EB", "slc-eb", "Slc_Eb"])
def test_the_case_of_a_method_name_does_not_matter(method: str) -> None:
    shown = called("fit", "--method", method, "--input", "x.csv", "--out", "y")
    assert "did you mean 'slc_eb'?" in str(shown.exception)


def test_help_is_not_truncated_at_eighty_columns() -> None:
    for command in ([], ["control"]):
        shown = called(*command, "--help").output
        assert "..." not in shown.partition("Commands:")[2]
