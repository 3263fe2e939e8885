"""The page "SLC": its content, permissions and refusals."""

import re
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from markupsafe import escape

from slc_ops.base.files import read_json
from slc_ops.evidence.verdict import method_in_words, parameters_in_words
from slc_ops.registry import Registry
from slc_ops.registry.rules import with_author
from slc_ops.settings.environment import Installation
from tests.evidence.worlds import evidence_files
from tests.plugins import school

pytestmark = pytest.mark.slow  # Airflow's web application

PATHS = (
    "/slc/",
    "/slc/status.json",
    "/slc/algebra",
    "/slc/algebra/versions/1/report",
    "/slc/algebra/versions/1/figures/series.png",
    "/slc/algebra/windows/2026-01-05/validation",
    "/slc/assets/page.css",
    "/slc/openapi.json",
    "/slc/docs",
)


@pytest.mark.parametrize("path", PATHS)
def test_without_a_token_there_is_no_page_and_no_json(
    client: TestClient, deployments: Installation, path: str
) -> None:
    answer = client.get(path)

    assert answer.status_code == 401
    assert "algebra" not in answer.text


def test_a_forged_token_is_refused(client: TestClient) -> None:
    assert client.get("/slc/", headers={"Authorization": "Bearer not.a.token"}).status_code in (401, 403)


def test_the_overview_shows_champion_verdict_reason_and_figure(
    admin: TestClient, deployments: Installation
) -> None:
    page = admin.get("/slc/").text

    assert "version 2, for" in page
    assert '<span class="badge promote">promote</span> it &amp; its &lt;b&gt;reasons&lt;/b&gt;.' in page
    assert 'src="/slc/algebra/versions/3/figures/series.png"' in page
    assert "+0.0210 [+0.0150, +0.0300]" in page
    assert "http://mlflow.example:5000/#/models/slc-algebra/versions/2" in page


def test_a_stopped_week_comes_first_with_its_reason(admin: TestClient, deployments: Installation) -> None:
    page = admin.get("/slc/").text

    result = deployments.windows("reading") / school.window(1).key / "validation.json"
    why, *_ = (each["sentence"] for each in read_json(result)["findings"] if each["severity"] == "critical")
    assert 'Validation stopped window <span class="days">2026-' in page
    assert escape(f": {why}") in page
    assert '<span class="quiet">docs/runbooks.md#outage-week</span>' in page
    assert page.index("/slc/reading") < page.index("/slc/algebra")


def test_a_deployment_without_any_version_is_shown_as_such(
    admin: TestClient, deployments: Installation
) -> None:
    assert "No refresh has ended yet." in admin.get("/slc/").text
    assert admin.get("/slc/unborn").status_code == 200


def test_the_page_of_a_deployment_shows_windows_ledger_and_items(
    admin: TestClient, deployments: Installation
) -> None:
    page = admin.get("/slc/algebra").text

    assert "26 Jan" not in page
    assert "19 Jan – 25 Jan 2026" in page
    assert "better &lt;i&gt;everywhere&lt;/i&gt;" in page
    assert "item-0001" in page
    assert "4 of 4 items of version 2" in page


def test_names_from_the_log_are_escaped_and_scripts_are_blocked(
    admin: TestClient, deployments: Installation
) -> None:
    answer = admin.get("/slc/algebra")

    assert school.EVIL not in answer.text
    assert "&lt;script&gt;" in answer.text
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


def test_reports_and_data_docs_open_in_a_sandbox(admin: TestClient, deployments: Installation) -> None:
    for path in ("/slc/algebra/versions/1/report", "/slc/algebra/windows/2026-01-05/validation"):
        answer = admin.get(path)
        assert answer.status_code == 200
        assert answer.headers["Content-Security-Policy"].startswith("sandbox")
    assert "Report of version 1" in admin.get("/slc/algebra/versions/1/report").text


def test_users_without_access_to_a_dag_do_not_see_its_deployment(
    limited: TestClient, deployments: Installation
) -> None:
    assert "reading" not in limited.get("/slc/").text
    assert list(limited.get("/slc/status.json").json()["deployments"]) == ["algebra"]
    assert limited.get("/slc/algebra").status_code == 200
    for path in (
        "/slc/reading",
        "/slc/reading/versions/1/report",
        "/slc/reading/versions/1/figures/series.png",
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
def test_paths_outside_the_home_are_refused(admin: TestClient, deployments: Installation, path: str) -> None:
    assert admin.get(path).status_code == 404


@pytest.mark.parametrize("query", ["page=0", "page=x", "version=0", f"search={'x' * 201}"])
def test_invalid_query_parameters_are_refused(
    admin: TestClient, deployments: Installation, query: str
) -> None:
    assert admin.get(f"/slc/algebra?{query}").status_code == 422


@pytest.mark.parametrize("path", ["/slc/", "/slc/algebra"])
def test_behind_a_path_prefix_every_link_keeps_the_prefix(
    admin: TestClient, deployments: Installation, path: str
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


def test_another_version_can_be_opened(admin: TestClient, deployments: Installation) -> None:
    assert "items of version 3" in admin.get("/slc/algebra?version=3").text
    assert admin.get("/slc/algebra?version=77").status_code == 404


def test_missing_files_on_this_host_are_explained(admin: TestClient, deployments: Installation) -> None:
    import shutil

    shutil.rmtree(deployments.refreshes("algebra"))
    shutil.rmtree(deployments.windows("algebra"))

    page = admin.get("/slc/algebra").text

    assert "not on the API server&#39;s host" in page or "not on the API server's host" in page
    assert "The reasons are in MLflow" in page
    assert admin.get("/slc/algebra/versions/1/report").status_code == 404


@pytest.mark.parametrize("number", [2**31, 2**63, 2**80])
def test_a_version_above_the_integer_range_is_not_found(
    admin: TestClient, deployments: Installation, number: int
) -> None:
    assert admin.get(f"/slc/algebra?version={number}").status_code == 404
    assert admin.get(f"/slc/algebra/versions/{number}/report").status_code == 404


@pytest.mark.parametrize("linked", ["file", "directory"])
@pytest.mark.parametrize("page", ["report", "figure", "validation", "index", "items", "verdict"])
def test_symbolic_links_inside_the_home_are_not_followed(
    admin: TestClient,
    deployments: Installation,
    tmp_path_factory: pytest.TempPathFactory,
    page: str,
    linked: str,
) -> None:
    secret = tmp_path_factory.mktemp("outside")
    version = school.publish(deployments, "algebra", 5, verdict="hold")
    refresh = deployments.refreshes("algebra") / version.window.key / f"{version.number:016x}"
    docs = deployments.windows("algebra")
    file, address = {
        "report": (refresh / "report" / "report.html", f"versions/{version.number}/report"),
        "figure": (
            refresh / "report" / "figures" / "series.png",
            f"versions/{version.number}/figures/series.png",
        ),
        "validation": (
            docs / version.window.key / "validation.html",
            f"windows/{version.window.key}/validation",
        ),
        "index": (docs / "index.html", "windows/index.html"),
        "items": (refresh / "parameters" / "item.parquet", ""),
        "verdict": (refresh / "verdict.json", ""),
    }[page]
    if file.suffix == ".json":
        file.write_text('{"sentence": "hold the stolen text"}')
    elif file.suffix in (".html", ".png"):
        file.write_text("the stolen text")
    if address:
        assert "stolen" in admin.get(f"/slc/algebra/{address}").text
    place = file if linked == "file" else file.parent
    place.rename(secret / place.name)
    place.symlink_to(secret / place.name)
    if address:
        assert admin.get(f"/slc/algebra/{address}").status_code == 404
    shown = admin.get(f"/slc/algebra?version={version.number}").text
    assert "stolen" not in shown + admin.get("/slc/").text
    if page == "items":
        assert "item-0001" not in shown


def test_the_link_all_windows_of_a_validation_page_works(
    admin: TestClient, deployments: Installation
) -> None:
    (deployments.windows("algebra") / "index.html").write_text("<h1>All windows</h1>")

    listed = admin.get("/slc/algebra/windows/index.html")  # ../index.html of a window's page

    assert listed.status_code == 200
    assert listed.headers["Content-Security-Policy"].startswith("sandbox")
    assert admin.get("/slc/algebra/windows/2026-01-05/validation.html").status_code == 200
    assert admin.get("/slc/reading/windows/index.html").status_code == 404


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/slc/nosuch", 404),
        ("/slc/algebra/no/such/page", 404),
        ("/slc/algebra?page=x", 422),
        ("/slc/algebra/versions/one/report", 422),
    ],
)
def test_browsers_get_errors_as_html_and_programs_as_json(
    admin: TestClient, deployments: Installation, path: str, status: int
) -> None:
    page = admin.get(path)
    assert page.status_code == status
    assert page.headers["content-type"].startswith("text/html")
    assert "Deployments</a>" in page.text
    answer = admin.get(path, headers={"Accept": "application/json"})
    assert answer.status_code == status
    assert answer.json()["detail"]


def test_a_browser_without_a_token_gets_a_link_to_log_in(
    client: TestClient, deployments: Installation
) -> None:
    page = client.get("/slc/", headers={"Accept": "text/html"})
    assert page.status_code == 401
    assert "Log in to Airflow" in page.text


def test_an_unreachable_ledger_is_reported_without_its_password(
    admin: TestClient, deployments: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLC_OPS_LEDGER_URL", "postgresql://127.0.0.1:9/ledger?user=ann&password=hunter2")
    page = admin.get("/slc/")
    assert page.status_code == 503
    assert "the ledger postgresql" in page.text
    assert "hunter2" not in page.text


def test_the_page_does_not_create_a_ledger(admin: TestClient, installation: Installation) -> None:
    assert admin.get("/slc/").status_code == 200
    assert list(installation.home.iterdir()) == []


def test_a_broken_entry_is_shown_to_users_with_access_to_its_dag(
    admin: TestClient,
    limited: TestClient,
    deployments: Installation,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = tmp_path / "deployments.yaml"
    file.write_text("deployments:\n  geometry:\n    source: {type: lake, path: x}\n    gaet: auto\n")
    monkeypatch.setenv("SLC_OPS_DEPLOYMENTS", str(file))
    page = admin.get("/slc/").text
    assert "<strong>geometry</strong> cannot be refreshed" in page
    assert "did you mean" in page
    assert "geometry" not in limited.get("/slc/").text
    file.write_text("deployments: [")
    assert "<strong>the deployments file</strong>" in admin.get("/slc/").text


def test_a_version_on_hold_gives_the_reason(admin: TestClient, deployments: Installation) -> None:
    page = admin.get("/slc/reading").text
    assert '<span class="why quiet">it &amp; its &lt;b&gt;reasons&lt;/b&gt;.</span>' in page


def test_both_decisions_are_explained_and_an_applied_change_is_shown_as_applied(
    admin: TestClient, installation: Installation
) -> None:
    version, verdict = school.publish(installation, "algebra", 5), evidence_files()[1]
    proposed, applied = (method_in_words(verdict, happened=happened) for happened in (False, True))
    page = admin.get("/slc/algebra").text
    assert proposed != applied
    assert escape(proposed) in page
    assert escape(parameters_in_words(verdict)) in page
    school.make_champion(installation, version)
    assert escape(applied) in admin.get("/slc/algebra").text


def test_the_audit_of_served_probabilities_is_a_table(admin: TestClient, installation: Installation) -> None:
    school.publish(installation, "algebra", 0)
    assert "Served probabilities" not in admin.get("/slc/algebra").text
    cell = {"version": 2, "day": "2026-01-07", "rows": 40, "off": 7, "cause": "rounded to 2 decimals"}
    table = {"tolerance": 1e-6, "rows": 40, "off": 7, "served": [cell | {"stale": True}]}
    school.write(installation.windows("algebra") / school.window(0).key / "served.json", table)
    page = admin.get("/slc/algebra").text
    assert "7 of 40 served probabilities differ by more than 1e-06" in page
    assert "rounded to 2 decimals" in page
    assert '2 <span class="badge hold">stale</span>' in page


def test_a_rolled_back_change_is_not_shown_as_applied(admin: TestClient, installation: Installation) -> None:
    first, second = (school.publish(installation, "algebra", week) for week in (0, 1))
    for version in (first, second):
        school.make_champion(installation, version)
    ledger = Registry.open(installation).ledger
    said = with_author(None, None, person=True, method="slc", taken=second, exclude=True)
    why = {"kind": "rollback", "actor": "ann", "reason": "a broken export", "evidence": said}
    ledger.advance(ledger.head("algebra"), first, **why)
    for path in ("/slc/", "/slc/algebra"):
        page = admin.get(path).text
        assert "was withdrawn by ann" in page
        assert "a broken export; later fits leave its window out" in page
        assert "promote it &amp; its" not in page
    assert page.count('<span class="badge hold">withdrawn</span>') == 2  # the sentence, and version 2


def test_the_page_shows_the_figures_that_the_newest_refresh_stored(
    admin: TestClient, installation: Installation
) -> None:
    number = school.publish(installation, "algebra", 5).number
    stored = f"/slc/algebra/versions/{number}/figures"
    assert f'src="{stored}/series.png"' in admin.get("/slc/").text
    page = admin.get("/slc/algebra").text
    assert f'src="{stored}/series.png"' in page
    assert "over_time.png" not in page  # this refresh has no figures
    answer = admin.get(f"{stored}/series.png")
    assert (answer.headers["content-type"], answer.content) == ("image/png", school.PNG)
    assert admin.get(f"{stored}/verdict.png").status_code == 404


def test_a_run_whose_tasks_were_all_skipped_is_not_called_a_success(
    admin: TestClient, deployments: Installation
) -> None:
    add_run("slc_weekly_refresh__algebra", "all-skipped", {"extract": "skipped", "gate": "skipped"})
    assert "last run skipped" in admin.get("/slc/").text
    add_run("slc_weekly_refresh__algebra", "held", {"extract": "success", "gate": "skipped"})
    page = admin.get("/slc/").text
    assert "last run success" in page
    assert "last run skipped" not in page


def add_run(dag_id: str, run_id: str, tasks: dict[str, str]) -> None:
    """Add a finished run to Airflow's database, with the state of each task."""
    import uuid
    from datetime import UTC, datetime

    from airflow.models.dagrun import DagRun
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.session import create_session
    from sqlalchemy import insert

    now = datetime.now(UTC)
    run = {"dag_id": dag_id, "run_id": run_id, "run_type": "manual", "state": "success", "run_after": now}
    run |= {"start_date": now, "log_template_id": 1, "clear_number": 0}
    with create_session() as session:
        session.execute(insert(DagRun).values(run))
        for task, state in tasks.items():
            entry = {"id": uuid.uuid4(), "dag_id": dag_id, "run_id": run_id, "task_id": task}
            entry |= {"map_index": -1, "state": state, "pool": "default_pool", "pool_slots": 1}
            session.execute(insert(TaskInstance).values(entry))
