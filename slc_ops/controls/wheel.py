"""MovieLens-100k from PyPI's ``recbole`` wheel, pinned by digest, without GroupLens' server.

pip fetches the wheel into the home directory without its dependencies (which include PyTorch); one file is
extracted and nothing is imported. The data may not be redistributed, so they are never part of this project.
"""

import importlib.util
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from slc_ops.base.digests import digest_file
from slc_ops.base.errors import InputError
from slc_ops.base.files import replacing
from slc_ops.controls.datasets import MOVIELENS_TERMS

REQUIREMENT = "recbole==1.2.1 --hash=sha256:9c9948202011f37eb0a7c6768129313f00d6403ad221ec940d5e2d5d5f33a407"
MEMBER = "recbole/dataset_example/ml-100k/ml-100k.inter"
DIGEST = "4edb74e2a81178c2ba9ff381495f754f996c4aea351b1272ca36b43da0935eff"
TIMEOUT_SECONDS = 300


class DataNotAvailable(InputError):
    """Public data are unavailable on this host; the control is skipped."""


def movielens_100k(folder: Path) -> Path:
    """Return the ratings file; it is fetched on first use."""
    target = folder / "ml-100k.inter"
    if not target.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as scratch, replacing(target) as temporary:
            wheel = _fetched(Path(scratch))
            with zipfile.ZipFile(wheel) as archive:
                temporary.write_bytes(archive.read(MEMBER))
    if digest_file(target) != DIGEST:
        raise InputError(f"{target} is not the file that was pinned; remove it to fetch it again")
    return target


def _fetched(scratch: Path) -> Path:
    wanted = scratch / "requirements.txt"
    wanted.write_text(REQUIREMENT + "\n")
    command = [
        *_pip(scratch), "download", "--quiet", "--no-deps", "--only-binary", ":all:", "--require-hashes",
        "--requirement", str(wanted), "--dest", str(scratch),
    ]  # fmt: skip
    try:
        subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=True)
    except subprocess.CalledProcessError as error:
        reason = (error.stderr.strip().splitlines() or ["pip gave no reason"])[-1]
    except (OSError, subprocess.TimeoutExpired) as error:
        reason = str(error)
    else:
        return next(scratch.glob("*.whl"))
    raise DataNotAvailable(
        f"MovieLens-100k cannot be downloaded from the package index ({reason}); name a folder with "
        f"GroupLens' files instead, or fetch them with 'slc-ops control download ml-100k'. {MOVIELENS_TERMS}"
    )


def _pip(scratch: Path) -> list[str]:
    """Return this interpreter's pip or, in an environment of uv, that of a temporary environment."""
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-m", "pip"]
    import venv

    venv.create(scratch / "pip", with_pip=True)
    return [str(scratch / "pip" / "bin" / "python"), "-m", "pip"]
