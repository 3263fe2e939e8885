"""The location of real rows, if available: ``SLC_OPS_TEST_DATA``, or ``shared/data`` beside the checkout."""

import os
from pathlib import Path

import pytest

BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data"
DATA = Path(os.environ.get("SLC_OPS_TEST_DATA") or BESIDE)

needs_real_rows = pytest.mark.skipif(
    not (DATA / "as17_pfa.test.parquet").is_file(),
    reason="as17_pfa.{calibration,test}.parquet lie neither in SLC_OPS_TEST_DATA nor in ../shared/data",
)
