"""Following the alias of a real embedded registry: promotions, rollbacks, manual changes, outages."""

import shutil
import threading
from pathlib import Path

import numpy as np
import pytest

from slc_ops.base.errors import RegistryError
from slc_ops.parameters.parameter_set import ParameterSet
from slc_ops.registry import Registry, Version
from slc_ops.serving import Corrector
from tests.registry.factory import WEEKS, files_of, no_file_above, parameter_set, publication

ITEMS, LOGITS = ["item-3", "item-9", "never seen"], [0.2, -1.0, 2.0]


class Stage:
    """A registry, a cache and a corrector that does not poll."""

    def __init__(self, registry: Registry, parameters: Path, home: Path) -> None:
        self.registry, self.parameters, self.cache = registry, parameters, home / "cache"

    def publish_and_promote(self, week: int, parameters: Path | None = None) -> Version:
        """Publish a week and promote it."""
        sent = publication(parameters or self.parameters, window=WEEKS[week])
        version = self.registry.publish(sent)
        return self.registry.promote("demo", version.number, actor="ann", reason="good")

    def corrector(self, **options: object) -> Corrector:
        settings = {"cache": self.cache, "interval": None} | options
        return Corrector.from_registry(self.registry.installation.tracking_uri, "demo", **settings)  # type: ignore[arg-type]

    def lose_the_registry(self) -> None:
        """Destroy the database; every connection notices at once."""
        path = Path(self.registry.installation.tracking_uri.removeprefix("sqlite:///"))
        path.write_bytes(b"no database " * 10_000)

    def files_of(self, version: Version) -> Path:
        return files_of(self.registry, version)


@pytest.fixture
def stage(registry: Registry, parameters: Path, tmp_path: Path) -> Stage:
    return Stage(registry, parameters, tmp_path)


def test_a_promotion_and_a_rollback_are_followed(stage: Stage, tmp_path: Path) -> None:
    other = parameter_set(tmp_path / "other", seed=5)
    stage.publish_and_promote(0)
    corrector = stage.corrector()
    stage.publish_and_promote(1, other)
    assert corrector.refresh()
    assert (
        corrector.correct(ITEMS, LOGITS).tolist() == ParameterSet.read(other).correct(ITEMS, LOGITS).tolist()
    )
    stage.registry.rollback("demo", actor="bob", reason="worse")
    assert corrector.refresh()
    assert corrector.health()["version"] == 1
    assert not corrector.refresh()


def test_an_older_window_set_by_hand_is_refused(stage: Stage) -> None:
    stage.publish_and_promote(0)
    stage.publish_and_promote(1)
    corrector = stage.corrector()
    stage.registry.client.set_registered_model_alias("slc-demo", "champion", "1")
    assert not corrector.refresh()
    health = corrector.health()
    assert (health["status"], health["version"]) == ("stale", 2)
    assert "no rollback is recorded" in health["problem"]
    stage.registry.verify("demo", repair=True)
    assert not corrector.refresh()
    assert corrector.health()["status"] == "ok"


def test_a_restarted_host_refuses_an_older_window_too(stage: Stage) -> None:
    stage.publish_and_promote(0)
    stage.publish_and_promote(1)
    stage.corrector()
    stage.registry.client.set_registered_model_alias("slc-demo", "champion", "1")
    again = stage.corrector().health()
    assert (again["status"], again["version"], again["from_cache"]) == ("stale", 2, True)


def test_a_host_that_missed_a_rollback_follows_the_next_promotion(stage: Stage) -> None:
    stage.publish_and_promote(0)
    waiting = stage.registry.publish(publication(stage.parameters, window=WEEKS[1]))
    stage.publish_and_promote(3)
    corrector = stage.corrector()
    stage.registry.rollback("demo", actor="bob", reason="bad")
    stage.registry.promote("demo", waiting.number, actor="bob", reason="better than the first")
    assert corrector.refresh()
    assert corrector.health()["version"] == waiting.number


def test_the_last_good_set_serves_during_an_outage(stage: Stage) -> None:
    stage.publish_and_promote(0)
    corrector = stage.corrector()
    before = corrector.correct(ITEMS, LOGITS).tolist()
    stage.lose_the_registry()
    assert not corrector.refresh()
    assert corrector.health()["status"] == "stale"
    assert "MLflow" in corrector.health()["problem"]
    assert corrector.correct(ITEMS, LOGITS).tolist() == before


def test_without_a_registry_a_new_host_serves_from_its_cache(stage: Stage) -> None:
    stage.publish_and_promote(0)
    expected = stage.corrector().correct(ITEMS, LOGITS).tolist()
    stage.lose_the_registry()
    corrector = stage.corrector()
    assert corrector.correct(ITEMS, LOGITS).tolist() == expected
    assert corrector.health()["from_cache"]


def test_without_registry_and_cache_there_is_nothing_to_serve(stage: Stage) -> None:
    stage.publish_and_promote(0)
    stage.lose_the_registry()
    with pytest.raises(RegistryError, match="MLflow"):
        stage.corrector()


def test_without_a_champion_there_is_nothing_to_serve(stage: Stage) -> None:
    stage.registry.publish(publication(stage.parameters))
    with pytest.raises(RegistryError, match="champion"):
        stage.corrector()
    assert stage.corrector(alias="challenger").health()["version"] == 1


def test_a_damaged_cache_is_fetched_again(stage: Stage) -> None:
    stage.publish_and_promote(0)
    stage.corrector()
    (items,) = stage.cache.rglob("item.parquet")
    items.write_bytes(b"not parquet")
    assert stage.corrector().health()["status"] == "ok"


def test_a_damaged_version_never_serves(stage: Stage, tmp_path: Path) -> None:
    stage.publish_and_promote(0)
    corrector = stage.corrector()
    before = corrector.correct(ITEMS, LOGITS).tolist()
    second = stage.publish_and_promote(1, parameter_set(tmp_path / "other", seed=5))
    (stage.files_of(second) / "item.parquet").write_bytes(b"PAR1 damaged PAR1")
    assert not corrector.refresh()
    assert "digest" in corrector.health()["problem"]
    assert corrector.correct(ITEMS, LOGITS).tolist() == before
    assert [path.name for path in stage.cache.rglob("item.parquet")] == ["item.parquet"]


def test_a_version_without_parameters_never_serves(stage: Stage) -> None:
    stage.publish_and_promote(0)
    corrector = stage.corrector()
    shutil.rmtree(stage.files_of(stage.publish_and_promote(1)))
    assert not corrector.refresh()
    assert "no parameter set" in corrector.health()["problem"]


def test_a_manually_created_version_never_serves(stage: Stage) -> None:
    first = stage.publish_and_promote(0)
    corrector = stage.corrector()
    run = stage.registry.client.get_run(first.run_id)
    stage.registry.client.create_model_version("slc-demo", f"{run.info.artifact_uri}/model")
    stage.registry.client.set_registered_model_alias("slc-demo", "champion", "2")
    assert not corrector.refresh()
    assert "window_start" in corrector.health()["problem"]


def test_a_full_disk_keeps_the_old_champion_serving(stage: Stage, tmp_path: Path) -> None:
    stage.publish_and_promote(0)
    corrector = stage.corrector()
    before = corrector.correct(ITEMS, LOGITS).tolist()
    stage.publish_and_promote(1, parameter_set(tmp_path / "other", seed=5))
    with no_file_above(500):
        assert not corrector.refresh()
    assert "cannot" in corrector.health()["problem"]
    assert corrector.correct(ITEMS, LOGITS).tolist() == before
    assert corrector.refresh()


@pytest.mark.slow
def test_old_sets_leave_the_cache(stage: Stage) -> None:
    for week in range(6):
        stage.publish_and_promote(week)
        stage.corrector()
    assert len(list(stage.cache.rglob("params.json"))) == 3


@pytest.mark.parametrize("name", ["a/b", "..", "a b", "a'b", 'a"b', "a%2fb", ""])
def test_names_with_path_separators_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(RegistryError, match="is not a deployment name"):
        Corrector.from_registry("http://127.0.0.1:9", name, cache=tmp_path)
    with pytest.raises(RegistryError, match="is not an alias"):
        Corrector.from_registry("http://127.0.0.1:9", "demo", name, cache=tmp_path)


@pytest.mark.slow
def test_readers_see_one_complete_set_while_sets_are_swapped(stage: Stage, tmp_path: Path) -> None:
    other = parameter_set(tmp_path / "other", seed=5)
    stage.publish_and_promote(0)
    stage.publish_and_promote(1, other)
    allowed = [ParameterSet.read(path).correct(ITEMS, LOGITS).tolist() for path in (stage.parameters, other)]
    seen: list[list[float]] = []
    stop = threading.Event()
    with stage.corrector(interval=0.02) as corrector:

        def read() -> None:
            while not stop.is_set():
                seen.append(corrector.correct(ITEMS, LOGITS).tolist())

        readers = [threading.Thread(target=read) for _ in range(2)]
        for reader in readers:
            reader.start()
        for number in (1, 2, 1, 2):
            stage.registry.rollback("demo", number, actor="bob", reason="to and fro")
            _eventually(lambda wanted=number: corrector.health()["version"] == wanted)
        stop.set()
        for reader in readers:
            reader.join()
    assert {tuple(answer) for answer in seen} == {tuple(answer) for answer in allowed}


def test_a_closed_corrector_keeps_its_set_and_stops_polling(stage: Stage) -> None:
    stage.publish_and_promote(0)
    corrector = stage.corrector(interval=0.02)
    corrector.close()
    stage.publish_and_promote(1)
    assert np.isfinite(corrector.correct("item-1", 0.0))
    assert corrector.health()["version"] == 1


def _eventually(condition, seconds: float = 20.0) -> None:  # type: ignore[no-untyped-def]
    import time

    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


def test_after_a_retirement_the_frozen_probabilities_serve(stage: Stage) -> None:
    stage.publish_and_promote(0)
    corrector = stage.corrector()
    stage.registry.retire("demo", actor="bob", reason="a new backbone")
    assert corrector.refresh()
    frozen = (1 / (1 + np.exp(-np.array(LOGITS)))).tolist()
    assert corrector.correct(ITEMS, LOGITS).tolist() == pytest.approx(frozen, abs=1e-15)
    assert corrector.correct(ITEMS[0], LOGITS[0]) == pytest.approx(frozen[0], abs=1e-15)
    health = corrector.health()
    assert (health["status"], health["serves"], health["version"]) == ("ok", "frozen", None)
    assert (health["revision"], health["method"]) == (2, "base")
    assert not corrector.refresh()
    assert stage.corrector().health()["serves"] == "frozen", "a new host finds it too"
    stage.publish_and_promote(1)
    assert corrector.refresh()
    assert (corrector.health()["serves"], corrector.health()["version"]) == ("correction", 2)


def test_a_manually_removed_alias_does_not_count_as_a_retirement(stage: Stage) -> None:
    stage.publish_and_promote(0)
    stage.registry.retire("demo", actor="bob", reason="a new backbone")
    stage.publish_and_promote(1)
    corrector = stage.corrector()
    client = stage.registry.client
    client.delete_registered_model_alias("slc-demo", "champion")
    assert not corrector.refresh()
    client.set_registered_model_tag("slc-demo", "champion_retired", "2")
    assert not corrector.refresh()
    health = corrector.health()
    assert (health["status"], health["serves"], health["version"]) == ("stale", "correction", 2)
    assert "older than what serves here" in health["problem"]


def test_after_a_retirement_a_manually_set_alias_is_not_followed(stage: Stage) -> None:
    stage.publish_and_promote(0)
    stage.registry.retire("demo", actor="bob", reason="a new backbone")
    corrector = stage.corrector()
    stage.registry.client.set_registered_model_alias("slc-demo", "champion", "1")
    assert not corrector.refresh()
    assert "retired the champion" in corrector.health()["problem"]
    assert corrector.health()["serves"] == "frozen"


def test_a_restarted_host_without_a_registry_remembers_the_retirement(stage: Stage) -> None:
    stage.publish_and_promote(0)
    corrector = stage.corrector()
    stage.registry.retire("demo", actor="bob", reason="a new backbone")
    corrector.refresh()
    stage.lose_the_registry()
    again = stage.corrector().health()
    assert (again["serves"], again["from_cache"], again["status"]) == ("frozen", True, "stale")


def test_a_deployment_without_any_champion_is_not_served(stage: Stage) -> None:
    stage.registry.publish(publication(stage.parameters))
    with pytest.raises(RegistryError, match="champion"):
        stage.corrector()
