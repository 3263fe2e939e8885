"""Put the page of a study (``study.md`` of ``slc-ops study``) and its figures into docs/performance.md.

    python scripts/study_page.py DIR [docs/performance.md]

The text between the two marks is replaced; headings move one level down.
"""

import shutil
import sys
from pathlib import Path

BEGIN = "<!-- begin study (written by scripts/study_page.py) -->"
END = "<!-- end study -->"


def main(directory: Path, page: Path) -> None:
    """Replace the text between the marks."""
    images = page.parent / "images"
    lines = (directory / "study.md").read_text(encoding="utf-8").splitlines()[2:]  # without the title
    body = "\n".join(f"#{line}" if line.startswith("#") else line for line in lines)
    for figure in sorted((directory / "figures").glob("*.png")):
        shutil.copy(figure, images / f"study-{figure.name}")
        body = body.replace(f"figures/{figure.name}", f"images/study-{figure.name}")
    before, rest = page.read_text(encoding="utf-8").split(BEGIN)
    after = rest.split(END)[1]
    page.write_text(f"{before}{BEGIN}\n\n{body.strip()}\n\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else Path("docs/performance.md"))
