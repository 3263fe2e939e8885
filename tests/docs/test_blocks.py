"""Every code block of README and site is run or compared by a test, or the page says why not."""

import re
import shlex
from pathlib import Path

import click
import pytest

from slc_ops.cli import COMMANDS, app
from tests.pages import ROOT, Block, blocks, pages

READERS = {
    "README.md": {"console": "docs/test_demo.py", "python": "docs/test_demo.py", "text": "docs/test_demo.py"},
    "docs/api.md": {"python": "api/test_replaying.py"},
    "docs/airflow.md": {"console": "release/test_adopting.py", "sh": "release/test_adopting.py"},
    "docs/installation.md": {
        "console": "docs/test_operating.py",
        "ini": "production/test_documentation.py",
    },
    "docs/runbooks.md": {"console": "docs/test_operating.py", "sh": "production/test_services.py"},
    "docs/serving.md": {
        "console": "docs/test_demo.py",
        "python": "docs/test_demo.py",
        "ts": "serving/test_typescript.py",
    },
    "docs/settings.md": {"yaml": "quality/test_own.py"},
    "docs/sources.md": {"yaml": "docs/test_sources_pages.py"},
    "docs/index.md": {"console": "docs/test_pages.py", "python": "docs/test_pages.py"},
    "docs/performance.md": {"console": "study/test_the_page.py", "sh": "study/test_the_page.py"},
    "docs/log.md": {
        "console": "settings/test_windows_page.py",
        "python": "settings/test_windows_page.py",
        "yaml": "settings/test_windows_page.py",
    },
}
"""Page → language of its blocks → the test that runs all of them, or compares them with the code."""

PAGES = pages()
BLOCKS = [block for page in PAGES for block in blocks(page)]
INLINE = [
    (page, text)
    for page in PAGES
    for text in re.findall(r"(?<!`)`(slc-ops [^`]+|make [a-z-]+)`", (ROOT / page).read_text(encoding="utf-8"))
]


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: f"{block.page}:{block.line}")
def test_every_block_has_a_test_or_a_stated_reason(block: Block) -> None:
    reader = READERS.get(block.page, {}).get(block.kind)
    if block.not_run is not None:
        assert len(block.not_run) > 20, f"{block.page}:{block.line}: {block.not_run!r} is no reason"
        return
    assert block.kind, f"{block.page}:{block.line} names no language"
    assert reader, (
        f"{block.page}:{block.line}: no test reads its {block.kind} blocks; write one, or "
        "put '<!-- not run: the reason -->' above it"
    )


def test_the_tests_named_for_blocks_exist_and_read_that_page() -> None:
    here = {(block.page, block.kind) for block in BLOCKS if block.not_run is None}
    assert {(page, kind) for page, kinds in READERS.items() for kind in kinds} == here
    for page, kinds in READERS.items():
        for path in kinds.values():
            text = (ROOT / "tests" / path).read_text(encoding="utf-8")
            assert Path(page).name in text, f"{path} does not name {page}"


def test_pages_have_many_blocks() -> None:
    assert len(BLOCKS) > 40
    assert sum(block.not_run is not None for block in BLOCKS) < len(BLOCKS) / 4


def options_of(name: str) -> set[str]:
    """The options of a command and of the commands below it."""
    command = app.get_command(click.Context(app), name)
    assert command is not None
    below = command.commands.values() if isinstance(command, click.Group) else ()
    parts = [part for each in (command, *below) for part in each.params]
    return {"-h", "--help"} | {each for part in parts for each in (*part.opts, *part.secondary_opts)}


@pytest.mark.parametrize(("page", "text"), sorted(set(INLINE)), ids=lambda value: str(value)[:60])
def test_commands_in_sentences_exist_with_their_options(page: str, text: str) -> None:
    if text.startswith("make "):
        target = text.split()[1]
        assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE), f"{page}: {text}"
        return
    words = shlex.split(text.replace("…", ""), comments=False)[1:]
    if words[0].startswith("-"):
        return
    for name in words[0].split("/"):
        assert name in COMMANDS, f"{page}: {text}"
    asked = {word.partition("=")[0] for word in words if word.startswith("--")}
    known = set().union(*(options_of(name) for name in words[0].split("/")))
    assert asked <= known, f"{page}: {text}"
