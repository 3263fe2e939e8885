"""Decision records are short and have a status; the architecture page lists the rules in force."""

import re
import runpy
from pathlib import Path

import pytest

from tests.pages import ROOT

RECORDS = sorted((ROOT / "docs" / "decisions").glob("*.md"))


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem[:4])
def test_a_record_has_a_number_a_rule_a_status_and_at_most_twelve_lines(path: Path) -> None:
    title, blank, status, *_ = lines = path.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 12
    assert re.fullmatch(rf"# {path.name[:4]} \S.*[^.]", title)
    assert blank == ""
    assert status.startswith(("**Status:** accepted", "**Status:** superseded by ["))
    for name in re.findall(r"\]\((\d{4}-[\w-]+\.md)\)", "\n".join(lines)):
        assert path.with_name(name).is_file(), name


def test_the_architecture_page_lists_the_rules_in_force() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert runpy.run_path(str(ROOT / "scripts" / "docs_pages.py"))["rules"](page) == page, (
        "run make docs-tables"
    )


def test_records_are_numbered_from_one_without_gaps() -> None:
    assert [int(path.name[:4]) for path in RECORDS] == list(range(1, len(RECORDS) + 1))
