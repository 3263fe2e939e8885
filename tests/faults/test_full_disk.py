"""A full disk in every step of a refresh, simulated by a limit on file sizes."""

from pathlib import Path

import pytest

from slc_ops.refresh import pipeline
from slc_ops.settings.environment import Installation
from tests.faults.conftest import Undisturbed
from tests.faults.homes import (
    NEWEST,
    REFRESH,
    check_one_version,
    installation_of,
    parameter_bytes,
    run,
    temporary_files,
)

pytestmark = pytest.mark.chaos
SIZES = (0, 3_000, 40_000)  # nothing fits; small JSON files do; small Parquet files do


def extracted(installation: Installation) -> None:
    pipeline.extract(installation, "school", NEWEST)


def validated(installation: Installation) -> None:
    extracted(installation)
    pipeline.validate(installation, "school", NEWEST)


def decided(installation: Installation) -> None:
    pipeline.refresh(installation, "school", NEWEST, until="decide")


BEGUN = {"extract": lambda installation: None, "validate": extracted, "fit": validated, "publish": decided}


@pytest.mark.faults(
    "the disk is full from extract, validate, fit or publish on (three sizes of file that still fit)",
    "one line, exit 2, no temporary file; with free space again: one version, the same parameter bytes",
)
@pytest.mark.parametrize("step", BEGUN)
def test_a_full_disk_gives_one_line_and_no_temporary_file_and_the_next_run_succeeds(
    home: Path, undisturbed: Undisturbed, step: str, record_property
) -> None:
    BEGUN[step](installation_of(home))
    for size in SIZES:
        failed = run(home, *REFRESH, str(NEWEST), largest_file=size)
        assert failed.refused(), f"{step}, {size} bytes: exit {failed.code}\n{failed.err}"
        assert temporary_files(home) == [], f"{step}, {size} bytes"
    record_property("runs", len(SIZES))
    done = run(home, *REFRESH, str(NEWEST))
    assert done.code == 0, done.err
    assert parameter_bytes(home) == undisturbed.parameters
    check_one_version(home)
