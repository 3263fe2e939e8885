"""The code blocks of a documentation page: commands, programs, settings and their stated output."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
NOT_RUN = re.compile(r"^ *<!-- not run: (.+) -->$")


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, and the comment above it that says why it is not run."""

    page: str
    line: int
    kind: str
    text: str
    not_run: str | None = None


@dataclass(frozen=True)
class Step:
    """A command with the lines that it must print, or a program (``python``) without any."""

    kind: str
    text: str
    expected: tuple[str, ...] = ()

    def check(self, answer: str) -> None:
        """Assert that every expected line is in the output; "…" matches anything."""
        for line in self.expected:
            pattern = ".*".join(re.escape(part) for part in line.split("…"))
            found = re.search(f"^{pattern}$", answer, re.MULTILINE)
            assert found, f"{self.text}: {line!r} not in\n{answer}"


def pages() -> list[str]:
    """README and the pages of the site, including decision records."""
    docs = (ROOT / "docs").rglob("*.md")
    return ["README.md", *sorted(str(path.relative_to(ROOT)) for path in docs)]


def blocks(page: str | Path) -> list[Block]:
    """All fenced blocks of a page, in its order; ``page`` is relative to the checkout.

    ``PAGE#HEADING`` are those of the section under ``## HEADING`` alone.
    """
    page, _, heading = str(page).partition("#")
    lines = (ROOT / page).read_text(encoding="utf-8").splitlines()
    found, start = [], -1
    first = lines.index(f"## {heading}") if heading else 0
    for number, line in enumerate(lines):
        if number < first:
            continue
        if heading and number > first and start < 0 and line.startswith("## "):
            break
        if not line.lstrip().startswith("```"):
            continue
        if start < 0:
            start = number
            continue
        indent = len(lines[start]) - len(lines[start].lstrip())
        above = NOT_RUN.match(lines[start - 1]) if start else None
        found.append(
            Block(
                page=str(page),
                line=start + 1,
                kind=lines[start].strip().removeprefix("```"),
                text="".join(f"{each[indent:]}\n" for each in lines[start + 1 : number]),
                not_run=above[1] if above else None,
            )
        )
        start = -1
    return found


def to_run(page: str | Path, *kinds: str) -> list[Block]:
    """The blocks of a page that a test must run, of all or some languages."""
    return [each for each in blocks(page) if each.not_run is None and (not kinds or each.kind in kinds)]


def commands(block: Block) -> Iterator[Step]:
    """The commands of a ``console`` block: ``$ `` starts one, ``> `` continues it, other lines are output."""
    for step in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        first, *lines = step.splitlines()
        command = [first, *(line[2:] for line in lines if line.startswith("> "))]
        expected = tuple(line for line in lines if not line.startswith("> ") and line)
        yield Step(block.kind, "\n".join(command), expected)


def steps(page: str | Path) -> Iterator[Step]:
    """The steps of a page in its order: commands of ``console`` blocks, whole ``python`` and ``sh`` blocks.

    A here-document is an ``sh`` block: no prompts stand in it, so that it can be pasted.
    """
    for block in to_run(page, "console", "python", "sh"):
        if block.kind in ("python", "sh"):
            yield Step(block.kind, block.text)
        else:
            yield from commands(block)


def environment() -> dict[str, str]:
    """The variables of a terminal with our commands and without our settings."""
    foreign = ("AIRFLOW", "MLFLOW_", "SLC_OPS_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    return kept | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{kept['PATH']}"}


def shell(command: str, cwd: Path, **variables: str) -> str:
    """The output of a shell with our commands; fails if the command fails."""
    done = subprocess.run(
        ["bash", "-ec", command], cwd=cwd, capture_output=True, text=True, check=False,
        env={**environment(), "COLUMNS": "200", **variables},
    )  # fmt: skip
    assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    return done.stdout


def run(
    page: str,
    cwd: Path,
    names: dict[str, object] | None = None,
    *,
    skip: Callable[[str], bool] = lambda command: False,
) -> int:
    """Run the steps of a page from top to bottom in a directory; return their number.

    Programs share ``names``, and exported variables persist between commands. ``skip`` selects commands that
    run elsewhere.
    """
    names = {} if names is None else names
    names["__name__"] = "__main__"
    count, exported = 0, ":"
    for step in steps(page):
        if step.kind == "python":
            exec(compile(step.text, page, "exec"), names)  # noqa: S102 - our own page
        elif skip(step.text):
            continue
        else:
            step.check(shell(f"{exported}\n{step.text}", cwd))
            if step.text.startswith("export "):
                exported = step.text
        count += 1
    return count
