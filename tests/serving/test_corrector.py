"""The corrector from a directory gives the same answers as the parameter set and refuses damaged sets."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from slc_ops.base.errors import InputError, ParameterSetError
from slc_ops.parameters.parameter_set import ParameterSet
from slc_ops.serving import Corrector
from tests.registry.factory import parameter_set

ITEMS = ["item-0", "item-7", "never seen", "naïve ☃", ""]
LOGITS = [0.3, -2.0, 8.0, -700.0, 0.0]


@pytest.mark.parametrize("method", ["base", "platt", "isotonic", "histogram", "rescal", "slc", "slc_iso"])
def test_single_rows_batches_and_the_parameter_set_agree(tmp_path: Path, method: str) -> None:
    parameter_set(tmp_path / "set", method=method)
    corrector = Corrector.from_directory(tmp_path / "set")
    expected = ParameterSet.read(tmp_path / "set").correct(ITEMS, LOGITS)
    assert corrector.correct(ITEMS, LOGITS).tolist() == expected.tolist()
    assert corrector.correct(pa.array(ITEMS), np.array(LOGITS)).tolist() == expected.tolist()
    one_by_one = [corrector.correct(item, logit) for item, logit in zip(ITEMS, LOGITS, strict=True)]
    assert all(isinstance(answer, float) for answer in one_by_one)
    assert np.abs(np.array(one_by_one) - expected).max() <= 1e-15


def test_an_integer_and_its_text_are_the_same_id(tmp_path: Path) -> None:
    parameter_set(tmp_path / "set", integer_ids=True)
    corrector = Corrector.from_directory(tmp_path / "set")
    many = corrector.correct([3, 999], [0.1, 0.1])
    one_by_one = [corrector.correct(3, 0.1), corrector.correct(np.int64(999), 0.1)]
    assert np.abs(np.array(one_by_one) - many).max() <= 1e-15
    assert corrector.correct("3", 0.1) == one_by_one[0]
    assert corrector.correct(["3", "03"], [0.1, 0.1]).tolist() == many.tolist()
    for wrong in (3.5, [3.5]):
        with pytest.raises(InputError, match="type"):
            corrector.correct(wrong, 0.1 if wrong == 3.5 else [0.1])


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_a_logit_that_is_not_a_number_is_refused(parameters: Path, bad: float) -> None:
    corrector = Corrector.from_directory(parameters)
    with pytest.raises(InputError, match="NaN or infinite"):
        corrector.correct("item-1", bad)
    with pytest.raises(InputError, match="NaN or infinite"):
        corrector.correct(["item-1"], [bad])


def test_an_empty_input_gives_an_empty_answer(parameters: Path) -> None:
    assert Corrector.from_directory(parameters).correct([], []).tolist() == []


def test_ids_and_logits_of_different_length_are_refused(parameters: Path) -> None:
    with pytest.raises(InputError, match="expected equal lengths"):
        Corrector.from_directory(parameters).correct(["item-1", "item-2"], [0.1])


def test_health_of_a_directory(parameters: Path) -> None:
    health = Corrector.from_directory(parameters).health()
    assert (health["status"], health["method"], health["version"]) == ("ok", "slc", None)
    json.dumps(health)


def _tamper_items(directory: Path) -> None:
    path = directory / "item.parquet"
    path.write_bytes(path.read_bytes()[:-9] + b"x" + path.read_bytes()[-8:])


def _tamper_golden(directory: Path) -> None:
    """A golden vector that differs, with digests that fit: only recomputing finds it."""
    from slc_ops.base.digests import digest_file
    from slc_ops.parameters.storage import signed

    golden = json.loads((directory / "golden.json").read_text())
    golden["vectors"][3]["probability"] += 1e-6
    (directory / "golden.json").write_text(json.dumps(golden))
    params = json.loads((directory / "params.json").read_text())
    params["golden_digest"] = digest_file(directory / "golden.json")
    (directory / "params.json").write_text(signed(json.dumps(params)))


def _unknown_schema(directory: Path) -> None:
    params = json.loads((directory / "params.json").read_text())
    (directory / "params.json").write_text(json.dumps(params | {"schema_version": 99}))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_tamper_items, "digest"),
        (_tamper_golden, "golden vector 3"),
        (_unknown_schema, "schema version 99"),
        (lambda directory: (directory / "item.parquet").unlink(), "missing"),
        (lambda directory: (directory / "golden.json").unlink(), "missing"),
        (lambda directory: (directory / "params.json").unlink(), "missing"),
        (lambda directory: (directory / "params.json").write_text("{"), "not JSON"),
        (lambda directory: (directory / "params.json").write_text("[]"), "schema version"),
    ],
)
def test_a_damaged_set_is_refused(tmp_path: Path, parameters: Path, damage, message: str) -> None:  # type: ignore[no-untyped-def]
    shutil.copytree(parameters, tmp_path / "damaged")
    damage(tmp_path / "damaged")
    with pytest.raises(ParameterSetError, match=message):
        Corrector.from_directory(tmp_path / "damaged")


HEAVY = (
    "airflow", "great_expectations", "mlflow", "pandas", "sklearn", "scipy", "sqlalchemy", "pydantic",
    "matplotlib", "requests", "click", "flask", "fastapi",
)  # fmt: skip


def test_importing_serving_imports_nothing_heavy() -> None:
    code = "import sys, slc_ops.serving; print(sorted({name.partition('.')[0] for name in sys.modules}))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {name for name in HEAVY if f"'{name}'" in result.stdout}


def test_a_host_with_only_numpy_and_pyarrow_can_serve(parameters: Path) -> None:
    """All other packages are hidden; pyarrow would import pandas if it were found."""
    code = f"""
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {HEAVY!r}:
            raise ImportError(f"{{name}} is not installed here")
sys.meta_path.insert(0, Missing())
from slc_ops.serving import Corrector
corrector = Corrector.from_directory({str(parameters)!r})
print(abs(corrector.correct("item-1", 0.3) - corrector.correct(["item-1"] * 20, [0.3] * 20)[7]) <= 1e-15)
try:
    Corrector.from_registry("http://127.0.0.1:9", "demo", cache="/nowhere", timeout=0.5)
except Exception as error:
    print(type(error).__name__)
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.stdout.split() == ["True", "RegistryError"], result.stderr
