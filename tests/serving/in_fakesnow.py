"""Run exported SQL in fakesnow: arguments are directories of an export with ``rows.parquet``; prints JSON.

Runs in an environment with fakesnow alone, whose packages do not go together with ours.
"""

import json
import os
import sys
from pathlib import Path

import fakesnow  # type: ignore[import-not-found,unused-ignore]
import snowflake.connector  # type: ignore[import-not-found,unused-ignore]


def answers(directory: Path) -> list[float | None]:
    """``p_corrected`` of each row, in the order of ``n``."""
    os.chdir(directory)
    with fakesnow.patch(), snowflake.connector.connect(database="db", schema="public") as connection:
        cursor = connection.cursor()
        for script in ("log.sql", "effects.sql", "score.sql"):
            text = "\n".join(
                line for line in Path(script).read_text().split("\n") if not line.startswith("--")
            )
            for statement in text.replace("file://", f"file://{directory}/").split(";\n"):
                if statement.strip():
                    cursor.execute(statement)
        return [
            row[0] for row in cursor.execute("SELECT p_corrected FROM slc_corrected ORDER BY n").fetchall()
        ]


if __name__ == "__main__":
    print(json.dumps([answers(Path(each)) for each in sys.argv[1:]]))
