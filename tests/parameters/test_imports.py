"""Fitting and serving import only what they need."""

import subprocess
import sys

import pyarrow.parquet as pq

from tests.methods.synthetic import table

PROGRAM = """
import sys
from pathlib import Path
from slc_ops.methods import METHODS, fit
from slc_ops.parameters.applying import apply_file
from slc_ops.parameters.parameter_set import ParameterSet
from slc_ops.rows.interactions import InteractionLog

rows, directory = Path(sys.argv[1]), Path(sys.argv[2])
log = InteractionLog.read(rows)
for method in METHODS:
    fit(method, log).write(directory / method)
    parameters = ParameterSet.read(directory / method)
    parameters.apply(log)
    apply_file(parameters, rows, directory / f"{method}.parquet")
print(sorted({"pandas", "scipy", "sklearn", "mlflow"} & set(sys.modules)))
"""


def test_the_ladder_needs_only_numpy_and_pyarrow(tmp_path):
    pq.write_table(table(), tmp_path / "rows.parquet")
    arguments = [sys.executable, "-c", PROGRAM, str(tmp_path / "rows.parquet"), str(tmp_path / "sets")]
    found = subprocess.run(arguments, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
