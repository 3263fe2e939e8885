"""Sources and terms of the controls' public data, and the download of large files.

A download is resumable, reports its progress, and is verified by size and, if published, by checksum.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

from slc_ops.base.errors import InputError

BLOCK = 1 << 20
TIMEOUT_SECONDS = 60
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
