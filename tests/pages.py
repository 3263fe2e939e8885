"""The commands and programs of a documentation page, and what it says they answer."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Step:
    """A command with the lines that it must answer, or a program (``python``) without any."""

    kind: str
    text: str
    expected: tuple[str, ...] = ()

    def check(self, answer: str) -> None:
        """Every expected line is in the answer; "…" stands for anything."""
        for line in self.expected:
            pattern = ".*".join(re.escape(part) for part in line.split("…"))
            found = re.search(f"^{pattern}$", answer, re.MULTILINE)
            assert found, f"{self.text}: {line!r} not in\n{answer}"


def steps(page: Path) -> Iterator[Step]:
    """The steps of a page in its order: the commands of ``console`` blocks, whole ``python`` blocks."""
    for kind, block in re.findall(
        r"^ *```(console|python)\n(.*?)^ *```", page.read_text(), re.DOTALL | re.MULTILINE
    ):
        if kind == "python":
            yield Step(kind, block)
            continue
        for step in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            first, *lines = step.splitlines()
            command = [first, *(line[2:] for line in lines if line.startswith("> "))]
            expected = tuple(line for line in lines if not line.startswith("> ") and line)
            yield Step(kind, "\n".join(command), expected)
