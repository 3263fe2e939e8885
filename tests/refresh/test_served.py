"""The audit names a stale server, another id format and manual rounding within a window."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slc_ops.base.errors import ValidationStopped
from slc_ops.base.files import read_json
from slc_ops.observability.metrics import collect
from slc_ops.parameters.parameter_set import ParameterSet
from slc_ops.quality.result import Finding
from slc_ops.refresh.pipeline import extract, read_plan, refresh, validate, write_report
from slc_ops.refresh.served import FILE, audit_served
from slc_ops.registry import Registry
from slc_ops.settings.environment import Installation
from slc_ops.settings.quality import Limit
from tests.refresh.school import NEWEST, change_week, configure
from tests.registry.factory import WEEKS, copy_home, installation_in, parameter_set, publication

MONDAY = datetime(2026, 3, 2, tzinfo=UTC)
WEDNESDAY = "2026-03-04"


class Served:
    """A week of rows served by version 2; tests change some of them."""

    def __init__(self, home: Path) -> None:
        self.registry, self.home = Registry.open(installation_in(home)), home
        self.sets = {number: ParameterSet.read(home / f"set-{number}") for number in (1, 2, 3)}
        random = np.random.default_rng(7)
        self.rows = 1400
        self.day = np.arange(self.rows) // 200
        self.items = np.array([f"item-{k}" for k in random.integers(0, 12, self.rows)])
        self.logit = random.normal(size=self.rows)
        self.label = (random.random(self.rows) < 0.5).astype(np.int64)
        self.version = np.full(self.rows, 2)
        self.p = self.of(2)
        self.wednesday = self.day == 2

    def of(self, version: int, items: Any = None) -> np.ndarray:
        return self.sets[version].correct(list(self.items if items is None else items), self.logit)

    def audit(self, limit: Limit | None = None) -> tuple[dict[str, Any], list[Finding]]:
        times = [MONDAY + timedelta(days=int(d), seconds=int(k)) for k, d in enumerate(self.day)]
        table = pa.table(
            {
                "event_time": pa.array(times, pa.timestamp("us", "UTC")),
                "user_id": [f"u{k % 50}" for k in range(self.rows)],
                "item_id": self.items, "label": self.label, "logit": self.logit,
                "served_probability": self.p, "served_version": self.version,
            }
        )  # fmt: skip
        pq.write_table(table, self.home / "log.parquet")
        found, findings = audit_served(
            self.registry.installation,
            "demo",
            self.home / "log.parquet",
            self.home,
            limit or Limit(warn=0.001),
        )
        assert found == read_json(self.home / FILE)
        return found, findings

    def on(self, day: str) -> list[dict[str, Any]]:
        return [each for each in read_json(self.home / FILE)["served"] if each["day"] == day]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with three versions; the first two were promoted."""
    home = tmp_path_factory.mktemp("served")
    registry = Registry.open(installation_in(home))
    for number in (1, 2, 3):
        directory = parameter_set(home / f"set-{number}", seed=number)
        sent = publication(directory, window=WEEKS[number], input_digest=str(number) * 64)
        version = registry.publish(sent)
        if number < 3:
            registry.promote("demo", version.number, reason="a test", actor="test")
    return home


@pytest.fixture
def served(kept: Path, tmp_path: Path) -> Served:
    copy_home(kept, tmp_path)
    return Served(tmp_path)


def test_probabilities_served_as_registered_pass(served: Served) -> None:
    found, findings = served.audit()
    assert findings == []
    assert (found["rows"], found["off"], found["arms"]) == (1400, 0, None)
    assert [each["rows"] for each in found["served"]] == [200] * 7
    assert found["served"][0]["largest"] < 1e-12


def test_a_stale_server_on_wednesday_is_named(served: Served) -> None:
    served.p = np.where(served.wednesday, served.of(1), served.p)
    found, (finding,) = served.audit()
    (cell,) = served.on(WEDNESDAY)
    assert cell["off"] == found["off"] > 190
    assert "the answers of version 1" in cell["cause"]
    assert finding.severity == "warning"
    assert "version 2 on 2026-03-04" in finding.line()
    assert "the answers of version 1" in finding.line()
    (critical,) = served.audit(Limit(warn=0.001, stop=0.1))[1]
    assert critical.severity == "critical"


def test_a_reported_older_version_is_stale_too_unless_rolled_back(served: Served) -> None:
    served.version = np.where(served.wednesday, 1, served.version)
    served.p = np.where(served.wednesday, served.of(1), served.p)
    found, (finding,) = served.audit()
    assert (found["off"], finding.code) == (0, "served_stale")
    assert "version 1 again on 2026-03-04" in finding.line()
    served.registry.rollback("demo", to=1, reason="a test", actor="test")
    assert served.audit()[1] == []


CAUSES: list[tuple[str, Callable[[Served], np.ndarray], str]] = [
    ("rounded", lambda s: np.round(s.p, 3), "rounded to 3 decimals"),
    ("ids", lambda s: s.of(2, [f"ITEM-{k}" for k in s.items]), "another format of item ids"),
    ("frozen", lambda s: 1 / (1 + np.exp(-s.logit)), "the frozen model's own answers"),
    ("other", lambda s: s.p * 0.9, "no known cause"),
]


@pytest.mark.parametrize(("what", "change", "cause"), CAUSES, ids=[each[0] for each in CAUSES])
def test_the_cause_of_a_deviation_is_named(
    served: Served, what: str, change: Callable[[Served], np.ndarray], cause: str
) -> None:
    served.p = change(served)
    found, (finding,) = served.audit()
    assert found["share"] > 0.9
    assert all(cause in each["cause"] for each in found["served"])
    assert cause in finding.line()


def test_an_unregistered_version_is_reported(served: Served) -> None:
    served.version[:] = 99
    found, (finding,) = served.audit()
    assert found["share"] == 1
    assert "no set of version 99" in finding.line()


def test_canary_arms_are_compared_by_user(served: Served) -> None:
    canary = np.arange(served.rows) % 50 < 10  # by user
    served.version = np.where(canary, 3, 2)
    served.p = np.where(canary, served.of(3), served.of(2))
    found, findings = served.audit()
    assert findings == []
    one, two = found["arms"]["arms"]
    assert ((one["version"], one["users"]), (two["version"], two["users"])) == ((2, 40), (3, 10))
    interval = found["arms"]["nll_difference"]
    loss = -(served.label * np.log(served.p) + (1 - served.label) * np.log(1 - served.p))
    assert interval["estimate"] == pytest.approx(loss[canary].mean() - loss[~canary].mean())
    by_user = [loss[canary & (np.arange(served.rows) % 50 == k)].mean() for k in range(10)]
    assert two["error"] == pytest.approx(np.std(by_user) / np.sqrt(10))  # users with equal numbers of rows
    assert interval["low"] < interval["estimate"] < interval["high"]


@pytest.mark.slow
def test_a_refresh_audits_the_newest_window(school: Installation) -> None:
    (before,) = NEWEST.before(1)
    plan = refresh(school, "school", before)
    champion = Registry.open(school).champion("school")
    assert champion is not None
    parameters = ParameterSet.read(plan.files.parameters)

    def with_served(week: pa.Table) -> pa.Table:
        items, logits = week["item_id"].combine_chunks(), np.asarray(week["logit"])
        p = np.round(parameters.correct(items, logits), 2)
        versions = pa.array([champion.number] * week.num_rows)
        return week.append_column("served_probability", pa.array(p)).append_column("served_version", versions)

    change_week(school, NEWEST, with_served)
    configure(school, quality={"served_off": {"warn": 0.001, "stop": None}})
    extract(school, "school", NEWEST)
    newest = read_plan(validate(school, "school", NEWEST)).newest
    (finding,) = [each for each in newest.validation["findings"] if each["code"] == "served_off"]
    assert "rounded to 2 decimals" in finding["sentence"]
    table = read_json(school.windows("school") / NEWEST.key / FILE)
    assert table["rows"] == newest.validation["rows"]
    gauges = {each.name: each.samples for each in collect(school, datetime(2026, 3, 1, tzinfo=UTC))}
    assert [sample.value for sample in gauges["slc_ops_served_off_share"]] == [table["share"]]
    assert [sample.value for sample in gauges["slc_ops_served_rows"]] == [table["rows"]]
    shown = replace(plan, windows=(*plan.windows[:-1], replace(plan.newest, validation=newest.validation)))
    page = write_report(shown, school.home / "page" / "report.html").read_text(encoding="utf-8")
    assert "Served probabilities" in page
    assert page.count("rounded to 2 decimals") > 1
    configure(school)
    with pytest.raises(ValidationStopped, match="rounded to 2 decimals"):
        validate(school, "school", NEWEST)
