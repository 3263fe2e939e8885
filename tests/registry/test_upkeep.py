"""Verify finds and repairs; retention removes unused versions."""

from pathlib import Path

import pytest

from slc_ops.base.errors import RegistryError
from slc_ops.registry import Registry, Version, logged_model
from tests.registry.factory import WEEKS, files_of, publication, read_aliases

pytestmark = pytest.mark.slow  # dozens of versions


@pytest.fixture
def two_champions(registry: Registry, parameters: Path) -> list[Version]:
    """Weeks 0 and 1 published and promoted, one after the other."""
    found = []
    for week in (0, 1):
        version = registry.publish(publication(parameters, window=WEEKS[week]))
        registry.promote("demo", version.number, actor="ann", reason="good")
        found.append(version)
    return found


def test_a_consistent_registry_has_no_findings(registry: Registry, two_champions: list[Version]) -> None:
    assert registry.verify("demo") == []
    assert registry.status()["deployments"]["demo"]["findings"] == []


def test_a_manually_moved_alias_is_reported_and_repaired(
    registry: Registry, two_champions: list[Version]
) -> None:
    registry.client.set_registered_model_alias("slc-demo", "champion", "1")
    (found,) = registry.verify("demo")
    assert (found.code, found.repairable) == ("alias", True)
    assert "the ledger's champion is version 2, the alias in MLflow points to version 1" in found.sentence
    (shown,) = registry.status()["deployments"]["demo"]["findings"]
    assert shown["code"] == "alias"
    assert [finding.code for finding in registry.verify("demo", repair=True)] == ["repaired"]
    assert read_aliases(registry.client, "demo") == {"champion": 2}
    assert registry.verify("demo") == []


def test_an_alias_unknown_to_the_ledger_is_removed(registry: Registry, parameters: Path) -> None:
    registry.publish(publication(parameters))
    registry.client.set_registered_model_alias("slc-demo", "champion", "1")
    registry.verify("demo", repair=True)
    assert read_aliases(registry.client, "demo") == {"challenger": 1}


def test_a_deleted_alias_is_restored(registry: Registry, two_champions: list[Version]) -> None:
    registry.client.delete_registered_model_alias("slc-demo", "champion")
    registry.verify("demo", repair=True)
    assert read_aliases(registry.client, "demo") == {"champion": 2}


def test_a_champion_with_broken_files_is_found(registry: Registry, two_champions: list[Version]) -> None:
    golden = files_of(registry, two_champions[1]) / "golden.json"
    golden.write_text(golden.read_text().replace("0.", "0.1", 1))
    (found,) = registry.verify("demo")
    assert found.code == "champion"
    assert "roll back" in found.sentence
    registry.rollback("demo", actor="bob", reason="damaged")
    assert registry.verify("demo") == []


def test_a_manually_created_version_is_found(registry: Registry, two_champions: list[Version]) -> None:
    run = registry.client.get_run(two_champions[0].run_id)
    registry.client.create_model_version("slc-demo", f"{run.info.artifact_uri}/model")
    (found,) = registry.verify("demo")
    assert found.code == "stray_version"


def test_without_mlflow_status_reads_the_ledger(
    registry: Registry, two_champions: list[Version], monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataclasses import replace

    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    lost = Registry.open(replace(registry.installation, tracking_uri="http://127.0.0.1:9"))
    answer = lost.status()["deployments"]["demo"]
    assert answer["champion"]["version"] == 2
    assert answer["findings"][0]["code"] == "unreachable"


def numbers(registry: Registry) -> set[int]:
    """The version numbers in MLflow."""
    return {int(v.version) for v in registry.client.search_model_versions("name = 'slc-demo'")}


def test_retention_removes_versions_that_were_never_champion_beyond_the_limit(
    registry: Registry, parameters: Path, two_champions: list[Version], monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = [
        registry.publish(publication(parameters, window=WEEKS[week], verdict={"verdict": "hold"}))
        for week in range(2, 6)
    ]
    assert numbers(registry) == {1, 2, 3, 4, 5, 6}
    files = files_of(registry, waiting[0])
    assert files.exists()
    monkeypatch.setattr(logged_model, "KEPT", 2)
    registry.publish(publication(parameters, window=WEEKS[6], verdict={"verdict": "hold"}))
    assert numbers(registry) == {1, 2, 5, 6, 7}
    assert not files.exists()
    experiment = registry.client.get_run(waiting[0].run_id).info.experiment_id
    models = {each.source_run_id for each in registry.client.search_logged_models([experiment])}
    assert waiting[0].run_id not in models
    assert two_champions[0].run_id in models
    assert logged_model.clean(registry.client, registry.ledger, "demo") == []
    assert registry.rollback("demo", actor="bob", reason="still there").number == 1
    assert registry.verify("demo") == []


def test_a_cleaned_version_cannot_be_promoted_but_published_again(
    registry: Registry, parameters: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logged_model, "KEPT", 1)
    sent = publication(parameters, window=WEEKS[0])
    retired = registry.publish(sent)
    for week in (1, 2):
        registry.publish(publication(parameters, window=WEEKS[week]))
    with pytest.raises(RegistryError, match="was cleaned away"):
        registry.promote("demo", retired.number, actor="ann", reason="?")
    again = registry.publish(sent)
    assert again.number == 4
    assert again.run_id == retired.run_id
    registry.promote("demo", again.number, actor="ann", reason="back again")


def test_publishing_applies_retention(
    registry: Registry, parameters: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logged_model, "KEPT", 2)
    for week in range(5):
        registry.publish(publication(parameters, window=WEEKS[week]))
    assert numbers(registry) == {3, 4, 5}  # the challenger and two more
