"""Lakes in Google Cloud and Azure, on emulators on loopback."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

from slc_ops.base.errors import InputError, SourceUnavailable
from slc_ops.intake.extract import extract
from slc_ops.intake.sources.delta import storage_options
from slc_ops.intake.sources.locations import AZURE_KEY, locate
from slc_ops.settings.deployments import Deployment
from slc_ops.settings.sources import DeltaSource, LakeSource
from tests.intake.conftest import WEEK
from tests.intake.emulators import answering, environment_with, free_port

NPM = shutil.which("npm")
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The account of every Azurite, by its documentation."""


@pytest.fixture(scope="module")
def google(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LakeSource]:
    """An empty bucket."""
    directory, port = tmp_path_factory.mktemp("google"), free_port()
    python = environment_with(directory / "venv", "gcp-storage-emulator==2026.7.19", "setuptools<81")
    command = [str(python.parent / "gcp-storage-emulator"), "start", "--host=127.0.0.1", f"--port={port}"]
    with answering([*command, "--in-memory", "--default-bucket=logs"], port, directory / "log"):
        yield LakeSource(path="gs://logs/lake", endpoint=f"http://127.0.0.1:{port}", anonymous=True)


@pytest.fixture(scope="module")
def azure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LakeSource]:
    """An empty container."""
    if NPM is None:
        pytest.skip("no npm on this machine, which installs Azurite (Debian: apt-get install nodejs npm)")
    directory, port = tmp_path_factory.mktemp("azure"), free_port()
    subprocess.run(
        [NPM, "install", "--no-audit", "--no-fund", "--prefix", str(directory), "azurite@3.37.0"],
        check=True, capture_output=True,
    )  # fmt: skip
    command = [str(directory / "node_modules" / ".bin" / "azurite-blob"), "--inMemoryPersistence"]
    command += ["--blobHost", "127.0.0.1", "--blobPort", str(port), "--skipApiVersionCheck", "--silent"]
    with answering([*command, "--disableTelemetry"], port, directory / "log"):
        yield LakeSource(
            path=f"abfs://logs@{ACCOUNT}.dfs.core.windows.net/lake", endpoint=f"http://127.0.0.1:{port}"
        )


def make_container(filesystem: pafs.FileSystem, root: str) -> None:
    """Create the container; Azurite may drop an idle connection on a loaded machine, so try twice."""
    for last in (False, False, True):
        try:
            return filesystem.create_dir(root.partition("/")[0])
        except OSError as error:
            if last or "Connection closed" not in str(error):
                raise


@pytest.fixture(params=["google", pytest.param("azure")])
def there(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> LakeSource:
    monkeypatch.setenv(AZURE_KEY, KEY)
    found: LakeSource = request.getfixturevalue(request.param)
    return found


@pytest.mark.services
def test_a_lake_in_a_cloud_gives_the_same_window_as_a_local_one(
    tmp_path: Path, rows: pa.Table, later_rows: pa.Table, there: LakeSource
) -> None:
    filesystem, root = locate(there, tmp_path)
    make_container(filesystem, root)
    for place, store in ((str(tmp_path / "lake"), pafs.LocalFileSystem()), (root, filesystem)):
        for week, table in (("2026-01-05", rows), ("2026-01-12", later_rows)):
            store.create_dir(f"{place}/week={week}", recursive=True)
            pq.write_table(table, f"{place}/week={week}/a.parquet", filesystem=store)
    local = extract(Deployment(source=LakeSource(path="lake")), WEEK, tmp_path / "a", home=tmp_path)
    remote = extract(Deployment(source=there), WEEK, tmp_path / "b", home=tmp_path)
    assert remote.digest == local.digest
    assert remote.fingerprint is not None
    assert KEY not in str(remote.source)
    assert extract(Deployment(source=there), WEEK, tmp_path / "b", refresh=True, home=tmp_path) == remote

    pq.write_table(rows.slice(1), f"{root}/week=2026-01-05/a.parquet", filesystem=filesystem)
    later = extract(Deployment(source=there), WEEK, tmp_path / "b", refresh=True, home=tmp_path)
    assert later.rows == local.rows - 1
    missing = there.model_copy(update={"path": f"{there.path}/elsewhere"})
    with pytest.raises(InputError, match="not a directory"):
        extract(Deployment(source=missing), WEEK, tmp_path / "c", home=tmp_path)


@pytest.mark.services
def test_a_delta_table_in_azure_gives_the_same_window_as_a_local_one(
    tmp_path: Path, rows: pa.Table, azure: LakeSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not for Google: its emulator does not support the library's listing (501)."""
    from deltalake import DeltaTable, write_deltalake

    monkeypatch.setenv(AZURE_KEY, KEY)
    source = DeltaSource(**{**azure.model_dump(exclude={"kind", "partition"}), "path": f"{azure.path}-delta"})
    filesystem, root = locate(source, tmp_path)
    make_container(filesystem, root)
    options = storage_options(source)
    for place, chosen in ((str(tmp_path / "table"), None), (source.path, options)):
        write_deltalake(place, rows, storage_options=chosen)
        DeltaTable(place, storage_options=chosen).delete("label = 0")
    local = extract(Deployment(source=DeltaSource(path="table")), WEEK, tmp_path / "a", home=tmp_path)
    remote = extract(Deployment(source=source), WEEK, tmp_path / "b", home=tmp_path)
    assert remote.digest == local.digest
    assert remote.rows < rows.num_rows


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {"path": "gs://logs/lake", "anonymous": True},
        {"path": f"abfs://logs@{ACCOUNT}.dfs.core.windows.net/lake"},
    ],
    ids=["google", "azure"],
)
def test_an_unreachable_cloud_gives_a_retryable_error(
    tmp_path: Path, unused_port: int, settings: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(AZURE_KEY, KEY)
    monkeypatch.setattr("slc_ops.intake.sources.locations.PATIENCE", 2.0)
    source = LakeSource.model_validate({**settings, "endpoint": f"http://127.0.0.1:{unused_port}"})
    with pytest.raises(SourceUnavailable, match="try again") as refusal:
        extract(Deployment(source=source), WEEK, tmp_path / "w", home=tmp_path)
    assert "\n" not in str(refusal.value)
    assert KEY not in str(refusal.value)


def test_a_path_without_a_container_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="abfs://container@account"):
        locate(LakeSource(path="abfs://account.dfs.core.windows.net/lake"), tmp_path)
