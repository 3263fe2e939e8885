"""The files of a version from an object store without MLflow: an S3-compatible server on loopback."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from slc_ops.base.errors import RegistryError
from slc_ops.parameters.parameter_set import ParameterSet
from slc_ops.serving.pointer import Pointer
from slc_ops.serving.sources import ClientSource
from tests.registry.factory import WEEKS
from tests.serving.servers import s3_server

pytestmark = pytest.mark.slow


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch, parameters: Path) -> Iterator[str]:
    """A bucket with a model's files; sets the environment as for MLflow."""
    with s3_server(monkeypatch) as store:
        store.create_bucket(Bucket="models")
        for path in parameters.iterdir():
            store.upload_file(str(path), "models", f"1/run/artifacts/model/artifacts/parameters/{path.name}")
        yield "s3://models/1/run/artifacts/model"


def pointer(source: str) -> Pointer:
    return Pointer(1, "run", source, WEEKS[0], None, None)


def test_a_set_is_fetched_from_s3(bucket: str, tmp_path: Path, parameters: Path) -> None:
    ClientSource("sqlite:///unused.db", "slc-demo", "champion").fetch(pointer(bucket), tmp_path)
    assert ParameterSet.read(tmp_path).method == ParameterSet.read(parameters).method


def test_a_version_without_files_in_s3_gives_a_typed_error(bucket: str, tmp_path: Path) -> None:
    with pytest.raises(RegistryError, match="no parameter set"):
        ClientSource("sqlite:///unused.db", "slc-demo", "champion").fetch(pointer(f"{bucket}-gone"), tmp_path)


def test_an_unknown_kind_of_store_gives_a_typed_error(tmp_path: Path) -> None:
    with pytest.raises(RegistryError, match="cannot be read"):
        ClientSource("sqlite:///unused.db", "slc-demo", "champion").fetch(pointer("ftp://x/y"), tmp_path)
