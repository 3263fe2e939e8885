"""Which code works out results: a name that changes whenever one of its lines does."""

import hashlib
from functools import cache
from pathlib import Path

from slc_ops import __version__

DECIDING_ROOMS = ("logs", "quality", "correction", "engines", "evidence")


@cache
def code_version() -> str:
    """The release and a digest of the code that decides results.

    Two installations with the same code version give the same bytes; a changed formula is a new version even
    between releases, and never reads what another formula stored.
    """
    package = Path(__file__).parent
    digest = hashlib.sha256()
    for source in sorted(path for room in DECIDING_ROOMS for path in (package / room).rglob("*.py")):
        digest.update(source.relative_to(package).as_posix().encode() + b"\0" + source.read_bytes() + b"\0")
    return f"{__version__}+{digest.hexdigest()[:12]}"
