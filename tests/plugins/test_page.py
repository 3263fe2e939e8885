"""The page "SLC": what it shows, to whom, and what it refuses."""

import re

import pytest
from fastapi.testclient import TestClient

from slc_ops.settings.deployments import Places
from tests.plugins import school

PATHS = (
    "/slc/",
    "/slc/status.json",
    "/slc/algebra",
    "/slc/algebra/versions/1/report",
    "/slc/algebra/windows/2026-01-05/validation",
    "/slc/assets/page.css",
    "/slc/openapi.json",
    "/slc/docs",
)


@pytest.mark.parametrize("path", PATHS)
def test_without_a_token_there_is_no_page_and_no_json(
    client: TestClient, deployments: Places, path: str
) -> None:
    answer = client.get(path)

    assert answer.status_code == 401
    assert "algebra" not in answer.text


def test_a_forged_token_is_refused(client: TestClient) -> None:
    assert client.get("/slc/", headers={"Authorization": "Bearer not.a.token"}).status_code in (401, 403)


def test_the_overview_shows_champion_verdict_reason_and_line(admin: TestClient, deployments: Places) -> None:
    page = admin.get("/slc/").text

    assert "version 2, for" in page
    assert '<span class="badge promote">promote</span> it &amp; its &lt;b&gt;reasons&lt;/b&gt;.' in page
    assert "AUC over 3 windows; newest AUC 0.8000, Platt 0.7800" in page
    assert "+0.0210 [+0.0150, +0.0300]" in page
    assert "http://mlflow.example:5000/#/models/slc-algebra/versions/2" in page


def test_a_stopped_week_comes_first_and_says_why(admin: TestClient, deployments: Places) -> None:
    page = admin.get("/slc/").text

    assert "Validation stopped: label is 0 or 1." in page
    assert page.index("/slc/reading") < page.index("/slc/algebra")


def test_a_deployment_without_any_version_is_shown_as_such(admin: TestClient, deployments: Places) -> None:
    assert "No refresh has ended yet." in admin.get("/slc/").text
    assert admin.get("/slc/unborn").status_code == 200


def test_the_page_of_a_deployment_shows_windows_ledger_and_items(
    admin: TestClient, deployments: Places
) -> None:
    page = admin.get("/slc/algebra").text

    assert "26 Jan" not in page
    assert "19 Jan – 25 Jan 2026" in page
    assert "better &lt;i&gt;everywhere&lt;/i&gt;" in page
    assert "item-0001" in page
    assert "4 of 4 items of version 2" in page


def test_names_from_the_log_are_text_and_nothing_may_run(admin: TestClient, deployments: Places) -> None:
    answer = admin.get("/slc/algebra")

    assert school.EVIL not in answer.text
    assert "&lt;script&gt;" in answer.text
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


def test_reports_and_data_docs_open_in_a_sandbox(admin: TestClient, deployments: Places) -> None:
    for path in ("/slc/algebra/versions/1/report", "/slc/algebra/windows/2026-01-05/validation"):
        answer = admin.get(path)
        assert answer.status_code == 200
        assert answer.headers["Content-Security-Policy"].startswith("sandbox")
    assert "Report of version 1" in admin.get("/slc/algebra/versions/1/report").text


def test_who_may_not_read_a_dag_does_not_see_its_deployment(limited: TestClient, deployments: Places) -> None:
    assert "reading" not in limited.get("/slc/").text
    assert list(limited.get("/slc/status.json").json()["deployments"]) == ["algebra"]
    assert limited.get("/slc/algebra").status_code == 200
    for path in (
        "/slc/reading",
        "/slc/reading/versions/1/report",
        "/slc/reading/windows/2026-01-05/validation",
    ):
        hidden, absent = limited.get(path), limited.get(path.replace("reading", "nosuch"))
        assert hidden.status_code == absent.status_code == 404
        assert hidden.text == absent.text


@pytest.mark.parametrize(
    "path",
    [
        "/slc/algebra/windows/..%2f..%2fledger.db/validation",
        "/slc/algebra/windows/../../ledger.db/validation",
        "/slc/..%2f..%2fetc",
        "/slc/algebra/versions/99/report",
        "/slc/assets/..%2fbase.html",
        "/slc/assets/base.html",
    ],
)
def test_paths_from_outside_lead_nowhere(admin: TestClient, deployments: Places, path: str) -> None:
    assert admin.get(path).status_code == 404


@pytest.mark.parametrize("query", ["page=0", "page=x", "version=0", f"search={'x' * 201}"])
def test_a_question_that_makes_no_sense_is_refused(
    admin: TestClient, deployments: Places, query: str
) -> None:
    assert admin.get(f"/slc/algebra?{query}").status_code == 422


@pytest.mark.parametrize("path", ["/slc/", "/slc/algebra"])
def test_under_a_path_of_its_own_every_link_of_airflow_s_keeps_it(
    admin: TestClient, deployments: Places, path: str
) -> None:
    behind = TestClient(admin.app, root_path="/air", headers=admin.headers)

    page = behind.get(f"/air{path}")

    links = re.findall(r'(?:href|src|action)="([^"]+)"', page.text)
    ours = [link for link in links if not link.startswith("http://mlflow.example")]
    assert len(ours) > 10
    assert [
        link for link in ours if not link.startswith(("/air/slc/", "/air/dags/slc_weekly_refresh__"))
    ] == []
    assert behind.get(next(link for link in ours if link.endswith("/report"))).status_code == 200


def test_another_version_can_be_looked_at(admin: TestClient, deployments: Places) -> None:
    assert "items of version 3" in admin.get("/slc/algebra?version=3").text
    assert admin.get("/slc/algebra?version=77").status_code == 404


def test_files_that_are_not_on_this_host_are_missed_in_words(admin: TestClient, deployments: Places) -> None:
    import shutil

    shutil.rmtree(deployments.refreshes("algebra"))
    shutil.rmtree(deployments.windows("algebra"))

    page = admin.get("/slc/algebra").text

    assert "not on the API server&#39;s host" in page or "not on the API server's host" in page
    assert "The reasons are in MLflow" in page
    assert admin.get("/slc/algebra/versions/1/report").status_code == 404
