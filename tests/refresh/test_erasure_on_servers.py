"""An erasure reaches what MLflow's server keeps in an object store."""

import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slc_ops.base.mlflow_client import create_database
from slc_ops.refresh import pipeline
from slc_ops.refresh.erasure import erase
from slc_ops.registry import Registry
from tests.refresh.test_erasure import SIXTH, USER, files_with, home_on, killed, rewritten, telling
from tests.serving.servers import mlflow_server, s3_server

pytestmark = pytest.mark.services


def test_an_erasure_reaches_what_an_mlflow_server_keeps_in_s3_also_after_a_kill(
    lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = rewritten(lake, tmp_path / "lake", telling)
    create_database(tmp_path / "mlflow.db")
    with s3_server(monkeypatch) as store:
        store.create_bucket(Bucket="artifacts")
        backend = f"sqlite:///{tmp_path}/mlflow.db"
        with mlflow_server(tmp_path, backend, artifacts="s3://artifacts/mlflow") as address:
            places = replace(home_on(own), tracking_uri=address)
            monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
            pipeline.refresh(places, "school", SIXTH)
            assert objects_with(store, USER)

            assert killed(places, 7) == -signal.SIGKILL
            (receipt,) = erase(places, [USER], actor="ann")

            assert objects_with(store, USER) == []
            assert files_with(places.home, USER) == []
            assert receipt.details["versions"] == [1]
            assert Registry.open(places).verify("school") == []


def objects_with(store: Any, text: str) -> list[str]:
    """The objects of the bucket that hold a text."""
    keys = [each["Key"] for each in store.list_objects_v2(Bucket="artifacts")["Contents"]]
    assert keys
    bodies = {key: store.get_object(Bucket="artifacts", Key=key)["Body"].read() for key in keys}
    return [key for key, body in bodies.items() if text.encode() in body]
