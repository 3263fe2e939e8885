"""Write the table of docs/methods.md from the table of methods: python scripts/methods_table.py"""

from pathlib import Path

from slc_ops.base.methods import METHODS

PAGE = Path(__file__).parent.parent / "docs" / "methods.md"
BEGIN = "<!-- generated from slc_ops/base/methods.py by scripts/methods_table.py -->\n"
END = "<!-- end of the generated table -->\n"


def page() -> str:
    """The page with the current table."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    return before + BEGIN + table() + END + after


def table() -> str:
    """One row per method, in ladder order."""
    head = ("method", "fit", "uses", "tunes", "effect on the AUC")
    rows: list[tuple[str, ...]] = [head, ("---",) * len(head)]
    for method in METHODS.values():
        tunes, looks_at = ", ".join(f"`{option}`" for option in method.tunes), ", ".join(method.looks_at)
        rows.append((f"`{method.name}`", method.description, looks_at, tunes, method.auc))
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
