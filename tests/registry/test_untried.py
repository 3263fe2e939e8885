"""A kill between ledger and alias, an interrupted upload, a jumping clock, and the description in MLflow."""

import os
import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from slc_ops.base.errors import RegistryError, SlcError
from slc_ops.registry import Registry, aliases, ledger
from tests.registry.factory import WEEKS, installation_in, no_file_above, publication, read_aliases


@pytest.mark.faults(
    "`kill -9` exactly between ledger and alias",
    "`verify` reports it, `status` shows the right champion, `verify --repair` repairs it",
)
def test_a_kill_between_ledger_and_alias_is_detected_and_repaired(
    registry: Registry, parameters: Path
) -> None:
    for week in (0, 1):
        registry.publish(publication(parameters, window=WEEKS[week]))
    registry.promote("demo", 1, actor="ann", reason="first")
    child = os.fork()
    if child == 0:
        aliases._mark = lambda *args: os.kill(os.getpid(), signal.SIGKILL)  # the alias is set right after it
        try:
            Registry.open(registry.installation).promote("demo", 2, actor="bob", reason="second")
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL
    after = Registry.open(registry.installation)
    assert read_aliases(after.client, "demo")["champion"] == 1
    assert [move.to_version for move in after.history("demo")] == [1, 2]
    (finding,) = (found for found in after.verify("demo") if "champion" in found.sentence)
    assert finding.repairable
    assert after.status()["deployments"]["demo"]["champion"]["version"] == 2
    after.verify("demo", repair=True)
    assert read_aliases(after.client, "demo") == {"champion": 2}
    assert after.verify("demo") == []


@pytest.mark.faults(
    "MLflow fails during an upload",
    "one line, nothing registered; the next attempt completes version 1",
)
def test_an_interrupted_upload_registers_nothing_and_the_next_attempt_completes_it(
    registry: Registry, parameters: Path, tmp_path: Path
) -> None:
    report = tmp_path / "report.html"
    report.write_text("x" * 3_000_000)
    sent = publication(parameters, artifacts={"report": report})
    with no_file_above(2_000_000), pytest.raises(SlcError) as caught:
        registry.publish(sent)
    assert "\n" not in str(caught.value)
    assert registry.ledger.versions("demo") == []
    assert registry.client.search_model_versions("name = 'slc-demo'") == []
    assert registry.publish(sent).number == 1
    assert registry.verify("demo") == []


class JumpingClock(datetime):
    """A clock that is set back by a year, then forward by two."""

    steps = iter((timedelta(), timedelta(days=-365), timedelta(days=730), timedelta(days=-1)))

    @classmethod
    def now(cls, tz: Any = None) -> datetime:
        return datetime.now(UTC) + next(cls.steps)


@pytest.mark.faults(
    "the clock jumps between four promotions",
    "order and champion are unchanged",
)
def test_a_jumping_clock_changes_neither_the_order_nor_the_champion(
    registry: Registry, parameters: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for week in range(4):
        registry.publish(publication(parameters, window=WEEKS[week]))
    monkeypatch.setattr(ledger, "datetime", JumpingClock)
    for number in (1, 2, 3, 4):
        registry.promote("demo", number, actor="ann", reason="good")
    line = registry.history("demo")
    assert [move.revision for move in line] == [1, 2, 3, 4]
    assert [move.to_version for move in line] == [1, 2, 3, 4]
    assert sorted(line, key=lambda move: move.at) != line  # the clock did jump
    champion = registry.champion("demo")
    assert champion is not None
    assert champion.number == 4
    assert registry.verify("demo") == []


def test_the_description_in_mlflow_has_verdict_metrics_reasons_and_links(
    registry: Registry, parameters: Path, tmp_path: Path
) -> None:
    report = tmp_path / "report.html"
    report.write_text("<html></html>")
    gain = {"estimate": 0.02, "low": 0.01, "high": 0.03}
    version = registry.publish(
        publication(
            parameters,
            verdict={
                "verdict": "hold",
                "sentence": "Hold: the NLL is not better.",
                "reasons": [{"sentence": "NLL +0.001 against Platt"}],
            },
            metrics={"auc": 0.7123, "nll": 0.5511, "vs_platt": {"auc": gain}},
            artifacts={"report": report},
        )
    )
    found = registry.client.get_model_version("slc-demo", str(version.number))
    for text in (
        "Hold: the NLL is not better.",
        "auc 0.7123",
        "auc against Platt +0.0200 [+0.0100, +0.0300]",
        "- NLL +0.001 against Platt",
        f"/runs/{version.run_id}/artifacts",
        "`report`",
    ):
        assert text in found.description


def test_a_description_that_is_too_long_is_truncated(registry: Registry, parameters: Path) -> None:
    reasons = [{"sentence": "x" * 100}] * 100
    sent = publication(parameters, verdict={"verdict": "hold", "sentence": "no", "reasons": reasons})
    found = registry.client.get_model_version("slc-demo", str(registry.publish(sent).number))
    assert len(found.description) == 5000


def test_readers_report_a_missing_mlflow_database(tmp_path: Path) -> None:
    reading = Registry.open(installation_in(tmp_path), create=False)
    with pytest.raises(RegistryError, match=r"there is no MLflow database .*mlflow\.db"):
        _ = reading.client
    assert list(tmp_path.iterdir()) == []
