"""Links of the approval task to report, data docs and MLflow."""

import pytest

from slc_ops.airflow.messages import as_markdown, version_links
from slc_ops.base.window import Window

WEEK = Window.parse("2026-03-23/2026-03-30")


def test_the_approval_links_to_report_data_docs_and_mlflow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLC_OPS_MLFLOW_URL", "https://ann:hunter2@mlflow.example/")
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://air.example/flow/")
    text = as_markdown(version_links("demo", 3, WEEK))
    assert "[report](/flow/slc/demo/versions/3/report)" in text
    assert "[data docs](/flow/slc/demo/windows/2026-03-23/validation)" in text
    assert "[MLflow](https://mlflow.example/#/models/slc-demo/versions/3)" in text


def test_without_an_mlflow_address_there_is_no_link_to_mlflow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLC_OPS_MLFLOW_URL", raising=False)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:////data/mlflow.db")
    assert set(version_links("demo", 3, WEEK)) == {"report", "data docs", "all versions"}
