"""Airflow's real API application with our plugin, a metadata database, and a home with deployments."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from slc_ops.settings.environment import Installation
from tests.plugins import school

NAMES = ("algebra", "reading", "unborn")


@pytest.fixture
def installation(tmp_path: Path, stopped: Installation, monkeypatch: pytest.MonkeyPatch) -> Installation:
    """A separate home."""
    monkeypatch.setattr(school, "VALIDATED", stopped.windows("school"))
    monkeypatch.setenv("SLC_OPS_HOME", str(tmp_path))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://mlflow.example:5000")
    return Installation.from_environment()


@pytest.fixture
def deployments(installation: Installation) -> Installation:
    """``algebra`` with a champion and a newer challenger, ``reading`` with a stopped week."""
    for week in range(3):
        last = school.publish(installation, "algebra", week)
        if week == 1:
            school.make_champion(installation, last)
    school.publish(installation, "reading", 0, verdict="hold")
    school.stop(installation, "reading", 1)
    return installation


@pytest.fixture(scope="module")
def application(metadata: None) -> Iterator[Any]:
    """Airflow's API server, in this process, with three of our DAGs in its database."""
    import os

    os.environ["AIRFLOW__CORE__AUTH_MANAGER"] = "tests.plugins.rights.RightsPerDag"
    os.environ["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS"] = "admin:admin,algebra:viewer"
    from airflow.api_fastapi.app import create_app, purge_cached_app

    purge_cached_app()
    register([f"slc_weekly_refresh__{name}" for name in NAMES])
    yield create_app()
    del os.environ["AIRFLOW__CORE__AUTH_MANAGER"], os.environ["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS"]
    purge_cached_app()


def register(dag_ids: list[str]) -> None:
    """Add these DAGs to Airflow's database."""
    from airflow.models.dag import DagModel
    from airflow.models.dagbundle import DagBundleModel
    from airflow.utils.session import create_session

    with create_session() as session:
        if session.get(DagBundleModel, "dags-folder") is None:
            session.add(DagBundleModel(name="dags-folder"))
        session.flush()
        for dag_id in dag_ids:
            if session.get(DagModel, dag_id) is None:
                session.add(DagModel(dag_id=dag_id, bundle_name="dags-folder", is_paused=False))


@pytest.fixture
def client(application: Any) -> TestClient:
    """A client without a token."""
    return TestClient(application)


@pytest.fixture
def admin(application: Any) -> TestClient:
    """A client that may read every DAG."""
    return caller(application, "admin", "admin")


@pytest.fixture
def limited(application: Any) -> TestClient:
    """A client that may read the DAG of ``algebra`` only."""
    return caller(application, "algebra", "viewer")


def caller(application: Any, name: str, role: str) -> TestClient:
    """A client with a token signed by Airflow's auth manager."""
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

    token = get_auth_manager().generate_jwt(SimpleAuthManagerUser(username=name, role=role))
    return TestClient(application, headers={"Authorization": f"Bearer {token}", "Accept": "text/html"})
