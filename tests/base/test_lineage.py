"""OpenLineage: real data set names, events that its own models accept, and no events unless configured."""

import logging
import os
import uuid
from pathlib import Path
from typing import Any

import pytest

from slc_ops.base.lineage import Data, configured, lineage
from slc_ops.base.window import Window
from slc_ops.demo.simulate import simulate
from slc_ops.refresh import pipeline
from slc_ops.settings.environment import Installation
from tests.refresh.school import NEWEST, configure
from tests.webhook import listening

WEEK = Window.parse("2026-03-23/2026-03-30")


def accepted(event: dict[str, Any]) -> None:
    """Rebuild the event with OpenLineage's own models, which validate it."""
    from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState

    uuid.UUID(event["run"]["runId"])
    RunEvent(
        eventType=RunState[event["eventType"]],
        eventTime=event["eventTime"],
        run=Run(runId=event["run"]["runId"]),
        job=Job(namespace=event["job"]["namespace"], name=event["job"]["name"]),
        inputs=[InputDataset(namespace=each["namespace"], name=each["name"]) for each in event["inputs"]],
        outputs=[OutputDataset(namespace=each["namespace"], name=each["name"]) for each in event["outputs"]],
        producer=event["producer"],
    )
    parts = [event["run"], event["job"], *event["inputs"], *event["outputs"]]
    facets = [facet for part in parts for facet in part.get("facets", {}).values()]
    facets += [facet for part in event["outputs"] for facet in part.get("outputFacets", {}).values()]
    assert facets
    for facet in facets:
        assert facet["_schemaURL"].startswith("https://openlineage.io/spec/")
        assert facet["_producer"]
    assert event["schemaURL"].startswith("https://openlineage.io/spec/2-")


@pytest.mark.slow
def test_extract_and_publish_report_inputs_and_outputs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulate(tmp_path / "lake" / "school", weeks=7, users=300, items=60, seed=11, start="2026-01-05")
    monkeypatch.setenv("SLC_OPS_HOME", str(tmp_path))
    monkeypatch.setenv("SLC_OPS_DEPLOYMENTS", str(tmp_path / "deployments.yaml"))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    installation = Installation.from_environment()
    configure(installation)
    with listening() as (port, heard):
        monkeypatch.setenv("OPENLINEAGE_URL", f"http://127.0.0.1:{port}")
        plan = pipeline.refresh(installation, "school", NEWEST)

    for event in heard:
        accepted(event)
    reported = [(each["job"]["name"], each["eventType"]) for each in heard]
    assert reported == [
        ("school.extract", "START"),
        ("school.extract", "COMPLETE"),
        ("school.publish", "START"),
        ("school.publish", "COMPLETE"),
    ]
    extract, publish = heard[1], heard[3]
    assert {each["run"]["runId"] for each in heard[:2]} == {extract["run"]["runId"]}
    assert named(extract["inputs"]) == [("file", f"{tmp_path}/lake/school")]
    log = f"{tmp_path}/windows/school/{NEWEST.key}/log.parquet"
    assert named(extract["outputs"]) == [("file", log)]
    assert extract["outputs"][0]["facets"]["version"]["datasetVersion"] == plan.newest.digest
    assert extract["outputs"][0]["outputFacets"]["outputStatistics"]["rowCount"] > 1000
    assert extract["run"]["facets"]["nominalTime"]["nominalStartTime"] == "2026-02-16T00:00:00+00:00"
    assert ("file", log) in named(publish["inputs"]), "what extract wrote, publish reads"
    assert len(publish["inputs"]) == 3
    assert named(publish["outputs"]) == [(f"mlflow+sqlite://{tmp_path}/mlflow.db", "slc-school")]


def named(parts: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(each["namespace"], each["name"]) for each in parts]


def test_a_failed_step_is_reported_as_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    with listening() as (port, heard):
        monkeypatch.setenv("OPENLINEAGE_URL", f"http://127.0.0.1:{port}")
        monkeypatch.setenv("OPENLINEAGE_NAMESPACE", "prod")
        with pytest.raises(ZeroDivisionError), lineage("extract", "demo", WEEK, lambda: [Data("file", "/x")]):
            1 / 0  # noqa: B018 - what fails is no matter
    assert [(each["job"]["namespace"], each["eventType"]) for each in heard] == [
        ("prod", "START"),
        ("prod", "FAIL"),
    ]
    assert not [name for name in os.environ if name.startswith("OPENLINEAGE__")], "left for other processes"


def test_no_event_is_sent_unless_openlineage_is_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    def reads() -> list[Data]:
        raise AssertionError("an event was built although no listener is configured")

    with lineage("extract", "demo", WEEK, reads) as written:
        written.append(Data("file", "/x"))
    monkeypatch.setenv("OPENLINEAGE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("OPENLINEAGE_DISABLED", "true")
    assert not configured()


def test_an_unreachable_server_gives_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    transport = {"TYPE": "http", "URL": "http://127.0.0.1:9", "RETRY": '{"total": 0}'}
    for name, value in transport.items():
        monkeypatch.setenv(f"OPENLINEAGE__TRANSPORT__{name}", value)
    with (
        caplog.at_level(logging.WARNING, "slc_ops"),
        lineage("extract", "demo", WEEK, lambda: [Data("file", "/x")]),
    ):
        pass
    (record,) = [each for each in caplog.records if each.name == "slc_ops.base.lineage"]
    assert "the lineage of extract was not sent" in record.getMessage()
