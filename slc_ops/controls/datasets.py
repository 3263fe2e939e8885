"""Sources and terms of the controls' public data, and their download.

A download of large files is resumable, reports its progress, and is verified by size and, if published, by
checksum. MovieLens-100k comes from PyPI's ``recbole`` wheel, pinned by digest, without GroupLens' server: pip
fetches the wheel into the home directory without its dependencies (which include PyTorch); one file is
extracted and nothing is imported. The data may not be redistributed, so they are never part of this project.
"""

import hashlib
import importlib.util
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

from slc_ops.base.digests import digest_file
from slc_ops.base.errors import InputError
from slc_ops.base.files import replacing

BLOCK = 1 << 20
TIMEOUT_SECONDS = 60
REQUIREMENT = "recbole==1.2.1 --hash=sha256:9c9948202011f37eb0a7c6768129313f00d6403ad221ec940d5e2d5d5f33a407"
MEMBER = "recbole/dataset_example/ml-100k/ml-100k.inter"
DIGEST = "4edb74e2a81178c2ba9ff381495f754f996c4aea351b1272ca36b43da0935eff"
PIP_SECONDS = 300
GROUPLENS = "https://files.grouplens.org/datasets/movielens"
BTS = "https://transtats.bts.gov/PREZIP/On_Time_Reporting_Carrier_On_Time_Performance_1987_present"

MOVIELENS_TERMS = (
    "MovieLens is for research: name GroupLens and Harper and Konstan (2015) where you publish, do not "
    "redistribute the data, and ask GroupLens before any commercial use."
)

Progress = Callable[[int, int | None], None]
"""A callback that receives the number of bytes received and the total, if known."""


@dataclass(frozen=True)
class Published:
    """Files of one data set: name → (address, MD5 if published)."""

    files: dict[str, tuple[str, str | None]]
    terms: str


DATASETS = {
    "ml-100k": Published(
        {"ml-100k.zip": (f"{GROUPLENS}/ml-100k.zip", "0e33842e24a9c977be4e0107933c0723")}, MOVIELENS_TERMS
    ),
    "ml-1m": Published(
        {"ml-1m.zip": (f"{GROUPLENS}/ml-1m.zip", "c4d9eecfca2ab87c1945afe126590906")}, MOVIELENS_TERMS
    ),
    "bts": Published(
        {
            f"on_time_{year}_{month:02d}.zip": (f"{BTS}_{year}_{month}.zip", None)
            for year in (2018, 2019)
            for month in range(1, 13)
        },
        "US government data, in the public domain. About 700 MB for 2018 and 2019.",
    ),
}


def fetch(name: str, folder: Path, tell: Callable[[str], None], progress: Progress) -> list[Path]:
    """Download a data set into a folder; existing files are kept, partial ones resumed."""
    found = []
    for number, (file, (url, md5)) in enumerate(DATASETS[name].files.items(), 1):
        tell(f"{file} ({number} of {len(DATASETS[name].files)})")
        found.append(download(url, folder / file, md5=md5, progress=progress))
    return found


def download(
    url: str, target: Path, *, md5: str | None = None, progress: Progress = lambda done, total: None
) -> Path:
    """Fetch ``url`` into ``target``; an existing file is kept, a partial one resumed."""
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + ".part")
    total = _fetch(url, part, progress)
    size = part.stat().st_size
    if total is not None and size != total:
        raise InputError(
            f"{url} ended after {size:,} of {total:,} bytes; run the same command again to resume"
        )
    if md5 is not None and (found := _md5(part)) != md5:
        part.unlink()
        raise InputError(f"{url} has the MD5 {found}, expected {md5}; it was changed or damaged on the way")
    part.replace(target)
    return target


def _fetch(url: str, part: Path, progress: Progress) -> int | None:
    """Append the missing bytes; return the size that the server reports."""
    have = part.stat().st_size if part.exists() else 0
    request = Request(url, headers={"Range": f"bytes={have}-"} if have else {})  # noqa: S310 - an address of ours
    try:
        with urlopen(request, timeout=TIMEOUT_SECONDS) as answer:  # noqa: S310 - as above
            resumed = answer.status == 206
            have = have if resumed else 0
            length = answer.headers.get("Content-Length")
            total = None if length is None else have + int(length)
            with part.open("ab" if resumed else "wb") as stream:
                while block := answer.read(BLOCK):
                    stream.write(block)
                    have += len(block)
                    progress(have, total)
            return total
    except URLError as error:
        if getattr(error, "code", None) == 416:  # the file is complete
            return have
        raise InputError(f"{url} cannot be fetched: {getattr(error, 'reason', error)}") from None
    except OSError as error:
        raise InputError(
            f"{url} broke off after {have:,} bytes ({error}); run the same command again to resume"
        ) from None


def _md5(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


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
        subprocess.run(command, capture_output=True, text=True, timeout=PIP_SECONDS, check=True)
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
