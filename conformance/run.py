"""Run the conformance suite against a reader in any language; needs Python's standard library only.

    python conformance/run.py COMMAND [ARGUMENT ...]

The command gets the directory of a set as its last argument, and the deployment after it if the entry names
one. It reads rows from standard input, a JSON object per line, and writes a line per row: the probability, or
``null`` for a row that it refuses. For a set that it refuses it ends with a status other than 0. The exit
status is 0 if every entry passes; each entry that fails is printed with its reason.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

SUITE = Path(__file__).resolve().parent


def fault(command: list[str], entry: dict[str, Any], tolerance: float) -> str | None:
    """Return the reason why the command fails an entry of the manifest; None if it passes."""
    rows = entry.get("rows", [])
    given = [{name: value for name, value in row.items() if name != "probability"} for row in rows]
    place = [str(SUITE / entry["directory"]), *([entry["deployment"]] if "deployment" in entry else [])]
    done = subprocess.run(
        [*command, *place],
        input="".join(json.dumps(row) + "\n" for row in given),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if "error" in entry:
        return None if done.returncode else f"was not refused: {entry['error']}"
    if done.returncode:
        return f"was refused: {done.stderr.strip()[-200:]}"
    answers = done.stdout.split()
    if len(answers) != len(rows):
        return f"{len(answers)} lines for {len(rows)} rows"
    for number, (row, answer) in enumerate(zip(rows, answers, strict=True)):
        expected, found = row["probability"], json.loads(answer)
        if (found is None) != (expected is None) or (
            expected is not None and not abs(found - expected) <= tolerance
        ):
            return f"row {number}: {found} instead of {expected}"
    return None


def main(command: list[str]) -> int:
    """Print the entries that fail; return the exit status."""
    if not command:
        print(__doc__)
        return 2
    manifest = json.loads((SUITE / "manifest.json").read_text(encoding="utf-8"))
    sets, failed = manifest["sets"], 0
    for entry in sets:
        if (reason := fault(command, entry, manifest["tolerance"])) is not None:
            failed += 1
            print(f"{entry['directory']}: {reason}")
    print(f"{len(sets) - failed} of {len(sets)} entries pass")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
