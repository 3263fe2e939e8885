"""The registry over HTTP: a real tracking server on SQLite and PostgreSQL, and MLflow's own serving."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import numpy as np
import pytest

from slc_ops.base.errors import RegistryError
from slc_ops.parameters.parameter_set import ParameterSet
from slc_ops.registry import Registry, logged_model
from slc_ops.serving import Corrector
from tests.registry.factory import WEEKS, installation_in, parameter_set, publication, read_aliases
from tests.serving.servers import mlflow_server, model_server, s3_server

pytestmark = pytest.mark.services
ITEMS, LOGITS = ["item-3", "item-9", "never seen"], [0.2, -1.0, 2.0]


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def remote(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    migrated: Path,
    postgres: Callable[[], str],
) -> Iterator[Registry]:
    """A registry behind a tracking server; the ledger uses the same kind of database."""
    import shutil

    home = tmp_path_factory.mktemp(f"remote-{request.param}")
    if request.param == "sqlite":
        shutil.copy(migrated, home / "mlflow.db")
        backend, ledger = f"sqlite:///{home}/mlflow.db", None
    else:
        backend = ledger = postgres()
    with mlflow_server(home, backend) as address:
        yield Registry.open(installation_in(home, address, ledger))


def test_publish_promote_roll_back_and_serve_over_http(
    remote: Registry, parameters: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = parameter_set(tmp_path / "other", seed=1)
    first = remote.publish(publication(parameters, artifacts={"verdict": parameters / "params.json"}))
    assert remote.publish(publication(parameters)) == first
    remote.promote("demo", first.number, actor="ann", reason="first")
    address, cache = remote.installation.tracking_uri, tmp_path / "cache"
    with Corrector.from_registry(address, "demo", cache=cache, interval=None) as corrector:
        _same(corrector.correct(ITEMS, LOGITS), ParameterSet.read(parameters).correct(ITEMS, LOGITS))

        second = remote.publish(publication(other, window=WEEKS[1]))
        assert not corrector.refresh()
        remote.promote("demo", second.number, actor="ann", reason="second")
        assert corrector.refresh()
        _same(corrector.correct(ITEMS, LOGITS), ParameterSet.read(other).correct(ITEMS, LOGITS))

        remote.rollback("demo", actor="bob", reason="worse")
        assert corrector.refresh()
        assert corrector.health()["version"] == first.number
        assert corrector.health()["status"] == "ok"

        remote.retire("demo", actor="bob", reason="a new backbone")
        assert corrector.refresh()
        assert (corrector.health()["status"], corrector.health()["serves"]) == ("ok", "frozen")
        _same(corrector.correct(ITEMS, LOGITS), 1 / (1 + np.exp(-np.array(LOGITS))))
        assert remote.verify("demo") == []
        remote.rollback("demo", actor="bob", reason="a mistake")
        assert corrector.refresh()
        assert corrector.health()["version"] == first.number
    assert read_aliases(remote.client, "demo") == {"champion": first.number}
    assert remote.verify("demo") == []
    monkeypatch.setattr(logged_model, "KEPT", 1)
    third = remote.publish(publication(other, window=WEEKS[2]))
    assert numbers(remote, "demo") == {first.number, second.number, third.number}  # champions are kept


def numbers(remote: Registry, deployment: str) -> set[int]:
    """The version numbers in MLflow."""
    return {int(v.version) for v in remote.client.search_model_versions(f"name = 'slc-{deployment}'")}


def test_retention_works_through_the_server(
    remote: Registry, parameters: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logged_model, "KEPT", 1)
    for week in range(4):
        remote.publish(publication(parameters, deployment="kept", window=WEEKS[week]))
    assert numbers(remote, "kept") == {3, 4}
    with pytest.raises(RegistryError, match="cleaned away"):
        remote.promote("kept", 1, actor="ann", reason="gone")
    assert remote.verify("kept") == []


def test_mlflow_models_serve_gives_the_same_probabilities(remote: Registry, tmp_path: Path) -> None:
    source = parameter_set(tmp_path / "served", seed=2)
    version = remote.publish(publication(source, deployment="served"))
    remote.promote("served", version.number, actor="ann", reason="to be served")
    expected = ParameterSet.read(source).correct(ITEMS, LOGITS)
    with model_server(tmp_path, remote.installation.tracking_uri, "models:/slc-served@champion") as address:
        by_logit = _invoke(address, {"item_id": ITEMS, "logit": LOGITS})
        _same(by_logit, expected)
        probability = (1 / (1 + np.exp(-np.array(LOGITS)))).tolist()
        _same(_invoke(address, {"item_id": ITEMS, "probability": probability}), expected)


def _invoke(address: str, columns: dict[str, list[object]]) -> list[float]:
    rows = [list(row) for row in zip(*columns.values(), strict=True)]
    body = {"dataframe_split": {"columns": list(columns), "data": rows}}
    answer = httpx.post(f"{address}/invocations", json=body, timeout=30, trust_env=False).raise_for_status()
    return [row["p_corrected"] for row in answer.json()["predictions"]]


def _same(found: object, expected: object) -> None:
    assert np.abs(np.asarray(found) - np.asarray(expected)).max() <= 1e-12


def test_versions_on_one_server_and_runs_on_another_with_the_files_in_s3(
    tmp_path: Path, migrated: Path, parameters: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import shutil

    for name in ("runs", "registry"):
        (tmp_path / name).mkdir()
        shutil.copy(migrated, tmp_path / name / "mlflow.db")
    backend, other = (f"sqlite:///{tmp_path}/{name}/mlflow.db" for name in ("runs", "registry"))
    with (
        s3_server(monkeypatch) as store,
        mlflow_server(tmp_path / "runs", backend, artifacts="s3://files/runs", proxy=False) as runs,
        mlflow_server(tmp_path / "registry", other) as apart,
    ):
        store.create_bucket(Bucket="files")
        registry = Registry.open(replace(installation_in(tmp_path, runs), separate_registry=apart))
        version = registry.publish(publication(parameters))
        registry.promote("demo", version.number, actor="ann", reason="first")

        found = registry.client.get_model_version("slc-demo", str(version.number))
        assert found.source.startswith("s3://files/runs/")
        assert Registry.open(installation_in(tmp_path, runs)).client.search_registered_models() == []
        assert registry.verify("demo") == []
        with Corrector.from_registry(apart, "demo", cache=tmp_path / "cache", interval=None) as corrector:
            _same(corrector.correct(ITEMS, LOGITS), ParameterSet.read(parameters).correct(ITEMS, LOGITS))
            registry.retire("demo", actor="bob", reason="a new backbone")
            assert corrector.refresh()
            assert corrector.health()["serves"] == "frozen"

        proxied = Registry.open(replace(installation_in(tmp_path, apart), separate_registry=runs))
        with pytest.raises(RegistryError, match="keeps the artifacts to itself"):
            proxied.publish(publication(parameters, deployment="other"))
