"""Bytes flipped in every kind of file of a home, one file at a time, before the next refresh."""

import os
from pathlib import Path

import pytest

from tests.faults.conftest import Undisturbed
from tests.faults.homes import BEFORE, NEWEST, REFRESH, findings, parameter_bytes, put_back, run

pytestmark = pytest.mark.chaos

WINDOW = f"windows/school/{BEFORE.key}"
OWN = f"refreshes/school/{NEWEST.key}/*"
PAST = f"refreshes/school/{BEFORE.key}/*"

# Kinds that the refresh of the next week reads, and kinds that the same refresh reads when it is run again.
READ_NEXT_WEEK = [
    f"{WINDOW}/manifest.json",
    f"{WINDOW}/log.parquet",
    f"{WINDOW}/log.sums.parquet",
    f"{WINDOW}/validation.json",
    f"{WINDOW}/statistics.json",
    f"{WINDOW}/items.parquet",
    f"{PAST}/plan.json",
    f"{PAST}/scores/{BEFORE.key}/slc/score.json",
    f"{PAST}/scores/{BEFORE.key}/slc/key.json",
    f"{PAST}/scores/{BEFORE.key}/slc/users.parquet",
    "mlflow/artifacts/*/models/*/artifacts/artifacts/parameters/params.json",
    "mlflow/artifacts/*/models/*/artifacts/artifacts/parameters/item.parquet",
]
READ_AGAIN = [
    f"{OWN}/plan.json",
    f"{OWN}/windows/*",
    f"{OWN}/scores/{NEWEST.key}/slc/score.json",
    f"{OWN}/scores/{NEWEST.key}/slc/users.parquet",
    f"{OWN}/scores/{NEWEST.key}/slc/items.parquet",
    f"{OWN}/backtest.json",
    f"refreshes/school/{NEWEST.key}/steps/*",
    f"{OWN}/verdict.json",
    f"{OWN}/detectability/detectability.json",
    f"{OWN}/parameters/params.json",
    f"{OWN}/parameters/item.parquet",
    f"{OWN}/parameters/golden.json",
    f"{OWN}/outcome.json",
    f"{OWN}/versions.json",
    f"{OWN}/report/report.html",
    "ledger.db",
    "mlflow/mlflow.db",
]


def damage(home: Path, pattern: str) -> Path:
    """Flip bytes in the middle of the first file of a kind, keeping its size and modification time."""
    path = next(each for each in sorted(home.glob(pattern)) if each.is_file())
    times = path.stat().st_atime_ns, path.stat().st_mtime_ns
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    for index in range(middle, min(middle + 16, len(content))):
        content[index] ^= 0x15
    path.unlink()  # other hard links keep their bytes
    path.write_bytes(content)
    os.utime(path, ns=times)
    return path


def check(home: Path, path: Path, expected: Undisturbed) -> None:
    """The damage is named in one line or in the verdict, or the file is recomputed with the same result."""
    ended = run(home, *REFRESH, str(NEWEST))
    if ended.code != 0:
        assert ended.refused(), ended.err
        return
    reasons = findings(home)["verdict.json"]["reasons"]
    if any(reason["code"] == "champion_unreadable" for reason in reasons):
        return  # the verdict names it and is a hold
    assert parameter_bytes(home) == expected.parameters, f"damaged {path.name} was used"
    assert findings(home) == expected.findings, f"damaged {path.name} was used"


SHOWN = (
    "16 bytes flipped in each kind of file under `var/`, one at a time, then a refresh",
    "named in one line (exit 2) or in the verdict (hold), or recomputed to the same bytes; never used",
)


@pytest.mark.faults(*SHOWN)
@pytest.mark.parametrize("pattern", READ_NEXT_WEEK)
def test_the_next_week_names_or_recomputes_damaged_files(
    week_before: Undisturbed, week_after: Undisturbed, place: Path, pattern: str
) -> None:
    home = put_back(week_before.kept, place)
    check(home, damage(home, pattern), week_after)


@pytest.mark.faults(*SHOWN)
@pytest.mark.parametrize("pattern", READ_AGAIN)
def test_the_same_week_names_or_recomputes_damaged_files(
    undisturbed: Undisturbed, place: Path, pattern: str
) -> None:
    home = put_back(undisturbed.kept, place)
    check(home, damage(home, pattern), undisturbed)
