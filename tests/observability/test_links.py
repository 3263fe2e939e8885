"""Links of a message sent outside Airflow."""

import pytest

from slc_ops.base.window import Window
from slc_ops.observability.links import page_links, terminal_links

WEEK = Window.parse("2026-03-23/2026-03-30")


def test_a_change_by_command_line_links_to_the_airflow_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://air.example/flow/")
    monkeypatch.setenv("SLC_OPS_MLFLOW_URL", "https://ann:hunter2@mlflow.example/")
    assert terminal_links("demo", WEEK, 3) == {
        "report": "https://air.example/flow/slc/demo/versions/3/report",
        "data docs": "https://air.example/flow/slc/demo/windows/2026-03-23/validation",
        "all versions": "https://air.example/flow/slc/demo",
        "MLflow": "https://mlflow.example/#/models/slc-demo/versions/3",
    }


def test_without_a_version_the_links_omit_the_report_and_lead_to_the_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SLC_OPS_MLFLOW_URL", "https://mlflow.example/")
    found = page_links("demo", None, None)
    assert found == {"all versions": "/slc/demo", "MLflow": "https://mlflow.example/#/models/slc-demo"}
