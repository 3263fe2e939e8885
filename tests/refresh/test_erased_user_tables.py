"""A user is erased from the tables of versions published by real refreshes, and serving continues."""

import json

import numpy as np
import pyarrow as pa
import pytest

from slc_ops.parameters.parameter_set import ParameterSet
from slc_ops.refresh import pipeline
from slc_ops.refresh.erasure import erase
from slc_ops.registry import Registry, Version
from slc_ops.registry.erasures import recorded_erasures
from slc_ops.registry.publication import digest_of_set
from slc_ops.serving import Corrector
from slc_ops.settings.environment import Installation
from tests.refresh.school import NEWEST, change_week, configure
from tests.refresh.test_erasure import files_with
from tests.registry.factory import files_of

pytestmark = pytest.mark.slow

ITEMS, LOGITS = ["item-000001", "item-000007", "never seen"], [0.3, -1.0, 0.5]


def with_users_that_differ(week: pa.Table) -> pa.Table:
    """Labels with a user effect larger than the item effect."""
    rng, users = np.random.default_rng(7), week["user_id"].to_pylist()
    worth = np.random.default_rng(1).normal(0, 1.5, 1000)
    eta = week["logit"].to_numpy() + worth[[int(each.split("-")[-1]) for each in users]]
    place = week.column_names.index("label")
    label = (rng.random(week.num_rows) < 1 / (1 + np.exp(-eta))).astype(np.int8)
    return week.set_column(place, "label", pa.array(label).cast(week.schema.field(place).type))


def users_of(registry: Registry, version: Version) -> list[str]:
    return list(ParameterSet.read(files_of(registry, version)).effects["user"].table["id"].to_pylist())


def test_an_erased_user_is_removed_from_every_published_version_and_serving_continues(
    school: Installation, caplog: pytest.LogCaptureFixture
) -> None:
    configure(
        school, methods=["platt", "slc_mix"], effects=["item", "slope", "group", "user"],
        forget={"half_life": 4, "windows": 4}, link_windows=2,
    )  # fmt: skip
    weeks = [*NEWEST.before(5), NEWEST]
    for week in weeks:
        change_week(school, week, with_users_that_differ)
    for week in weeks[-2:]:
        pipeline.refresh(school, "school", week)
    registry = Registry.open(school)
    versions = registry.ledger.versions("school")
    assert [each.method for each in versions] == ["slc_mix", "slc_mix"]
    known = set(users_of(registry, versions[0])) & set(users_of(registry, versions[1]))
    person, other = sorted(known)[:2]
    before = [ParameterSet.read(files_of(registry, each)) for each in versions]

    (receipt,) = erase(school, [person], actor="ann")
    numbers = [each.number for each in versions]
    assert receipt.details["versions"] == numbers
    assert sorted(receipt.details["resealed"]) == [str(each) for each in numbers]
    assert person not in json.dumps(receipt.details)
    lake = [name for name in files_with(school.home, person) if name.startswith("lake/")]
    assert files_with(school.home, person) == lake  # only the source, which is not ours
    for version, old in zip(versions, before, strict=True):
        files = files_of(registry, version)
        assert digest_of_set(files) == receipt.details["resealed"][str(version.number)]
        new = ParameterSet.read(files)
        assert person not in users_of(registry, version)
        for users in ([other] * 3, ["never seen"] * 3):
            answer = old.correct(ITEMS, LOGITS, users=users).tolist()
            assert new.correct(ITEMS, LOGITS, users=users).tolist() == answer
        assert old.correct(ITEMS, LOGITS, users=[person] * 3).tolist() != old.correct(ITEMS, LOGITS).tolist()
    assert registry.verify("school") == []
    assert recorded_erasures(registry.ledger, "school") == [receipt]

    corrector = Corrector.from_registry(school.tracking_uri, "school", interval=None)
    erased = corrector.correct(ITEMS, LOGITS, users=[person] * 3).tolist()
    assert erased == corrector.correct(ITEMS, LOGITS).tolist()
    stays = corrector.correct(ITEMS, LOGITS, users=[other] * 3).tolist()
    assert stays == before[1].correct(ITEMS, LOGITS, users=[other] * 3).tolist()
    health = corrector.health()
    assert health["unknown"]["user"] == {"rows": 6, "examples": []}  # ids of users are personal data
    assert person not in json.dumps(health) + caplog.text
