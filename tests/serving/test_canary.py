"""Canaries: which users get the challenger's answers, and when none do."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from starlette.testclient import TestClient

from slc_ops.base.errors import InputError, SettingsError
from slc_ops.base.hashing import shares_of
from slc_ops.parameters.parameter_set import ParameterSet
from slc_ops.registry import Registry
from slc_ops.serving import Corrector, app
from tests.registry.factory import WEEKS, copy_home, installation_in, parameter_set, publication

USERS = [f"user-{k}" for k in range(400)]
ITEMS, LOGITS = ["item-3", "item-9"] * 200, np.linspace(-2, 2, 400).tolist()


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another parameter set than the champion's."""
    return parameter_set(tmp_path_factory.mktemp("other") / "set", seed=5, window=WEEKS[1])


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory, parameters: Path, other: Path) -> Path:
    """A home in which version 1 is champion and version 2 challenger."""
    home = tmp_path_factory.mktemp("canary")
    registry = Registry.open(installation_in(home))
    first = registry.publish(publication(parameters))
    registry.promote("demo", first.number, actor="ann", reason="good")
    registry.publish(publication(other, window=WEEKS[1]))
    return home


@pytest.fixture
def registry(kept: Path, tmp_path: Path) -> Registry:
    """The registry of a copy of that home."""
    copy_home(kept, tmp_path)
    return Registry.open(installation_in(tmp_path))


@pytest.fixture
def corrector(registry: Registry, tmp_path: Path) -> Corrector:
    """Version 1 is champion, version 2 challenger, a quarter of the users are canaries."""
    return follow(registry, tmp_path)


def follow(registry: Registry, home: Path, canary: float = 0.25, by: str = "user") -> Corrector:
    uri, cache = registry.installation.tracking_uri, home / "cache"
    return Corrector.from_registry(uri, "demo", cache=cache, interval=None, canary=canary, by=by)


def test_each_arm_gets_the_answers_of_its_version(
    corrector: Corrector, parameters: Path, other: Path
) -> None:
    answer = corrector.answer(ITEMS, LOGITS, users=USERS)
    assert answer.versions is not None
    assert (answer.version, answer.method) == (None, None)
    assert set(answer.versions.tolist()) == {1, 2}
    champion, challenger = (ParameterSet.read(each).correct(ITEMS, LOGITS) for each in (parameters, other))
    assert answer.probability.tolist() == np.where(answer.versions == 2, challenger, champion).tolist()
    assert corrector.correct(ITEMS, LOGITS, users=USERS).tolist() == answer.probability.tolist()
    assert corrector.versions == [1, 2]


def test_a_row_gets_the_same_version_alone_and_in_a_batch(corrector: Corrector) -> None:
    together = corrector.answer(ITEMS, LOGITS, users=USERS)
    for row in range(0, 40):
        alone = corrector.answer(ITEMS[row : row + 1], LOGITS[row : row + 1], users=USERS[row : row + 1])
        assert together.versions is not None
        assert alone.version == together.versions[row]
        one = corrector.correct(ITEMS[row], LOGITS[row], users=USERS[row])
        assert one == pytest.approx(together.probability[row], abs=1e-15)


@pytest.mark.slow
def test_a_larger_share_keeps_the_chosen_users(
    corrector: Corrector, registry: Registry, tmp_path: Path
) -> None:
    quarter = np.asarray(corrector.answer(ITEMS, LOGITS, users=USERS).versions) == 2
    half = np.asarray(follow(registry, tmp_path, 0.5).answer(ITEMS, LOGITS, users=USERS).versions) == 2
    assert abs(quarter.mean() - 0.25) < 4 * np.sqrt(0.25 * 0.75 / 400)
    assert (quarter <= half).all()
    whole = follow(registry, tmp_path, 1.0).answer(ITEMS, LOGITS, users=USERS)
    assert whole.version == 2


def test_the_choice_of_canaries_is_stable() -> None:
    """A release that reassigned users would mix both arms of a running comparison."""
    found = shares_of(pa.array(["user-0", "user-1", "用户", ""]), "canary of demo")
    assert found.tolist() == SHARES


SHARES = [0.602221701236207, 0.8486871551175187, 0.4594118810358756, 0.4122238332509056]


def test_shares_are_even_and_differ_between_deployments() -> None:
    ids = pa.array([f"u{k}" for k in range(20_000)])
    demo, math = shares_of(ids, "canary of demo"), shares_of(ids, "canary of math")
    for found in (demo, math):
        counts = np.histogram(found, bins=20, range=(0, 1))[0]
        assert ((counts - 1000) ** 2 / 1000).sum() < 50  # χ² with 19 degrees of freedom
    assert abs(np.corrcoef(demo, math)[0, 1]) < 0.03


def test_rows_without_a_user_get_the_champion(corrector: Corrector) -> None:
    assert corrector.answer(ITEMS, LOGITS).version == 1
    assert corrector.answer(ITEMS, LOGITS, users=[None] * 400).version == 1
    with pytest.raises(InputError, match="expected texts or integers"):
        corrector.answer(ITEMS, LOGITS, users=[0.5] * 400)
    with pytest.raises(InputError, match="3 user ids for 400 rows"):
        corrector.answer(ITEMS, LOGITS, users=["a", "b", "c"])


def test_a_promoted_challenger_answers_all_rows(corrector: Corrector, registry: Registry) -> None:
    registry.promote("demo", 2, actor="ann", reason="better")
    assert corrector.refresh()
    assert corrector.answer(ITEMS, LOGITS, users=USERS).version == 2
    assert corrector.health()["canary"]["version"] is None
    registry.rollback("demo", actor="bob", reason="worse")
    assert corrector.refresh()
    assert corrector.answer(ITEMS, LOGITS, users=USERS).version == 1


def test_a_retirement_ends_the_canary(corrector: Corrector, registry: Registry) -> None:
    registry.retire("demo", actor="ann", reason="stop")
    assert corrector.refresh()
    answer = corrector.answer(ITEMS, LOGITS, users=USERS)
    assert (answer.version, answer.method) == (None, "base")


def test_an_outage_leaves_both_arms_as_they_are(
    corrector: Corrector, registry: Registry, tmp_path: Path
) -> None:
    before = corrector.answer(ITEMS, LOGITS, users=USERS)
    Path(registry.installation.tracking_uri.removeprefix("sqlite:///")).write_bytes(b"no database " * 10_000)
    assert not corrector.refresh()
    after = corrector.answer(ITEMS, LOGITS, users=USERS)
    assert after.versions is not None
    assert before.versions is not None
    assert after.versions.tolist() == before.versions.tolist()
    health = corrector.health()
    assert (health["status"], health["canary"]["status"], health["canary"]["version"]) == (
        "stale",
        "stale",
        2,
    )
    again = follow(registry, tmp_path)  # a start without a registry: only the last champion
    assert again.answer(ITEMS, LOGITS, users=USERS).version == 1


def test_health_metrics_and_answers_name_both_versions(corrector: Corrector) -> None:
    client = TestClient(app(corrector))
    body = {"item_id": ITEMS, "logit": LOGITS, "user_id": USERS}
    found = client.post("/correct", json=body).json()
    assert found["version"] is None
    assert set(found["versions"]) == {1, 2}
    text = client.get("/metrics").text
    challenger = 'slc_serving_rows_total{deployment="demo",arm="challenger"}'
    rows = {
        line.rpartition(" ")[0]: int(line.split()[-1]) for line in text.splitlines() if "rows_total{" in line
    }
    assert rows[challenger] == found["versions"].count(2)
    assert rows['slc_serving_rows_total{deployment="demo"}'] == found["versions"].count(1)
    tensors = [{"name": "item_id", "datatype": "BYTES", "shape": [400], "data": ITEMS}]
    tensors += [{"name": "logit", "datatype": "FP64", "shape": [400], "data": LOGITS}]
    for version in ("1", "2"):  # either serving version can be requested
        path = f"/v2/models/demo/versions/{version}/infer"
        assert client.post(path, json={"inputs": tensors}).json()["model_version"] == version
    assert client.post("/v2/models/demo/versions/3/infer", json={"inputs": tensors}).status_code == 404


@pytest.mark.parametrize(("canary", "by"), [(0.0, "user"), (1.5, "user"), (0.1, "weekday")])
def test_invalid_shares_and_effects_are_refused(
    registry: Registry, tmp_path: Path, canary: float, by: str
) -> None:
    with pytest.raises(SettingsError, match="expected"):
        follow(registry, tmp_path, canary, by)


@pytest.mark.slow
def test_challengers_do_not_displace_the_champion_in_the_cache(
    corrector: Corrector, registry: Registry, other: Path, tmp_path: Path
) -> None:
    for week in range(2, 7):
        registry.publish(publication(other, window=WEEKS[week]))
        corrector.refresh()
    assert corrector.versions == [1, 7]
    Path(registry.installation.tracking_uri.removeprefix("sqlite:///")).write_bytes(b"no database " * 10_000)
    assert follow(registry, tmp_path).versions == [1]
