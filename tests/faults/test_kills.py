"""A refresh killed with SIGKILL at random points."""

import random
import time
from pathlib import Path

import pytest

from tests.faults.conftest import Undisturbed
from tests.faults.homes import (
    NEWEST,
    REFRESH,
    check_one_version,
    kill,
    parameter_bytes,
    put_back,
    run,
    start,
)

pytestmark = pytest.mark.chaos
KILLS = 4


@pytest.mark.faults(
    "`kill -9` of `slc-ops refresh` at random points, then run again",
    "one version, one champion, the parameter bytes of an undisturbed refresh",
)
@pytest.mark.parametrize("seed", [1, 2])
def test_a_refresh_killed_at_random_points_gives_one_version_with_the_same_bytes(
    home: Path, fresh: Path, undisturbed: Undisturbed, seed: int, record_property
) -> None:
    chance, killed = random.Random(seed), 0
    while killed < KILLS:
        process = start(home, *REFRESH, str(NEWEST))
        time.sleep(chance.uniform(0.1, 0.8) * undisturbed.seconds)
        if kill(process):
            killed += 1
        else:  # the refresh ended before the kill
            check(home, undisturbed)
            put_back(fresh, home)
    record_property("runs", killed)
    done = run(home, *REFRESH, str(NEWEST))
    assert done.code == 0, done.err
    check(home, undisturbed)


def check(home: Path, undisturbed: Undisturbed) -> None:
    assert parameter_bytes(home) == undisturbed.parameters
    check_one_version(home)
