"""Two hosts with different code on one window, and a clock that jumps during a process."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.faults.conftest import Undisturbed
from tests.faults.homes import (
    NEWEST,
    REFRESH,
    ROOT,
    check_one_version,
    ended,
    parameter_bytes,
    registered_in,
    run,
    start,
    temporary_files,
)

pytestmark = pytest.mark.chaos

JUMPING_CLOCK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/time.h>
#include <time.h>
/* Real time, a year ago, in two years: another one every 200 questions. */
static long shift(void) {
    static long asked;
    long turn = __sync_add_and_fetch(&asked, 1) / 200 % 3;
    return turn == 0 ? 0 : turn == 1 ? -365L * 86400 : 730L * 86400;
}
int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *)) dlsym(RTLD_NEXT, "clock_gettime");
    int answer = real(clock, now);
    if (clock == CLOCK_REALTIME) now->tv_sec += shift();
    return answer;
}
time_t time(time_t *into) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (into) *into = now.tv_sec;
    return now.tv_sec;
}
int gettimeofday(struct timeval *into, void *zone) {
    struct timespec now;
    (void) zone;
    clock_gettime(CLOCK_REALTIME, &now);
    into->tv_sec = now.tv_sec;
    into->tv_usec = now.tv_nsec / 1000;
    return 0;
}
"""


def other_code(directory: Path) -> Path:
    """The same package with one extra statement in a file that affects results."""
    shutil.copytree(ROOT / "slc_ops", directory / "slc_ops", ignore=shutil.ignore_patterns("__pycache__"))
    with (directory / "slc_ops" / "evidence" / "folds.py").open("a") as file:
        file.write("\nANOTHER_RELEASE = True\n")
    return directory


@pytest.mark.faults(
    "two hosts with different code refresh one window at the same time, then both again",
    "one version per code version, one champion, ledger and aliases agree; no change the second time",
)
def test_two_hosts_with_different_code_give_two_versions_and_one_champion(
    home: Path, tmp_path: Path, record_property
) -> None:
    codes = (ROOT, other_code(tmp_path / "other"))
    for _ in range(2):
        hosts = [start(home, *REFRESH, str(NEWEST), code=code) for code in codes]
        for host in hosts:
            done = ended(host)
            assert done.code == 0 or done.refused(), done.err
    record_property("runs", 4)
    found = registered_in(home)
    assert (found["versions"], found["ledger"], len(found["codes"])) == (2, 2, 2)
    assert found["champion"] is not None
    assert found["alias"] == found["champion"]
    assert found["findings"] == []
    assert temporary_files(home) == []


@pytest.mark.faults(
    "the clock jumps a year back and two years forward during `slc-ops refresh`, run twice",
    "one version, one champion, the same parameter bytes",
)
def test_a_clock_that_jumps_during_a_refresh_does_not_change_the_result(
    home: Path, undisturbed: Undisturbed, tmp_path: Path, record_property
) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("a clock for a whole process is a small library; there is no C compiler to make it")
    source, library = tmp_path / "clock.c", tmp_path / "clock.so"
    source.write_text(JUMPING_CLOCK)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    for _ in range(2):
        done = run(home, *REFRESH, str(NEWEST), LD_PRELOAD=str(library))
        assert done.code == 0, done.err
    record_property("runs", 2)
    assert parameter_bytes(home) == undisturbed.parameters
    check_one_version(home)
