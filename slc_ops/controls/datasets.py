"""Where the controls' public data come from, and on what terms."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from slc_ops.base.errors import SettingsError
from slc_ops.controls.download import Progress, download

GROUPLENS = "https://files.grouplens.org/datasets/movielens"
BTS = "https://transtats.bts.gov/PREZIP/On_Time_Reporting_Carrier_On_Time_Performance_1987_present"

MOVIELENS_TERMS = (
    "MovieLens is for research: name GroupLens and Harper and Konstan (2015) where you publish, do not "
    "redistribute the data, and ask GroupLens before any commercial use."
)


@dataclass(frozen=True)
class Published:
    """Files of one data set: name → (address, MD5 where the publisher gives one)."""

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


def fetch(
    name: str,
    folder: Path,
    tell: Callable[[str], None] = lambda text: None,
    progress: Progress = lambda done, total: None,
) -> list[Path]:
    """Download a data set into a folder; what is there is kept, what was begun is continued."""
    if name not in DATASETS:
        raise SettingsError(f"no data set {name!r}; there are {', '.join(DATASETS)}")
    found = []
    for number, (file, (url, md5)) in enumerate(DATASETS[name].files.items(), 1):
        tell(f"{file} ({number} of {len(DATASETS[name].files)})")
        found.append(download(url, folder / file, md5=md5, progress=progress))
    return found
