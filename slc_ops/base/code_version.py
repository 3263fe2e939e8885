"""Which code works out results: a name that changes whenever one of its lines does."""

import hashlib
from functools import cache
from pathlib import Path

from slc_ops import __version__

DECIDING_PACKAGES = ("intake", "rows", "quality", "numerics", "parameters", "methods", "evidence")


@cache
def code_version() -> str:
    """The release and a digest of the code that decides results.

    Two installations with the same code version give the same bytes; a changed formula is a new version even
    between releases, and never reads what another formula stored.
    """
    package = Path(__file__).parent.parent
    digest = hashlib.sha256()
    for source in sorted(path for name in DECIDING_PACKAGES for path in (package / name).rglob("*.py")):
        digest.update(source.relative_to(package).as_posix().encode() + b"\0" + source.read_bytes() + b"\0")
    return f"{__version__}+{digest.hexdigest()[:12]}"
