"""The routes; each requires a user with read permission for the deployment."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any

from airflow.api_fastapi.core_api.security import get_user
from fastapi import Depends, FastAPI, HTTPException, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse
from starlette.exceptions import HTTPException as StarletteHTTPException

from slc_ops.airflow.page.access import MayRead, Readable, Schedule
from slc_ops.airflow.page.items import SORTS, find_items
from slc_ops.airflow.page.overview import (
    FIGURES,
    broken_entries,
    cards,
    figure_file,
    replays,
    validation_page,
    why,
)
from slc_ops.airflow.page.render import ASSETS, render
from slc_ops.base.addresses import without_secrets
from slc_ops.base.errors import SlcError
from slc_ops.observability.stored import is_ours, newest_audit, refresh_of
from slc_ops.registry import Registry, Version
from slc_ops.settings.environment import Installation

OURS = (
    "default-src 'none'; style-src 'self'; img-src 'self'; script-src 'self'; form-action 'self'; "
    "frame-ancestors 'self'; base-uri 'none'"
)
SHOWN = 16
"""Number of versions in the table."""
# Written pages may quote item names from the log: they may use any style but may not run scripts.
WRITTEN = "sandbox allow-popups; default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:"


def _schedule(readable: Readable, name: str) -> Schedule:
    """Return the schedule of the deployment in the address, if the user may read it."""
    if name not in readable:
        raise HTTPException(404, "There is no such deployment, or you may not read its DAG.")
    return readable[name]


Allowed = Annotated[Schedule, Depends(_schedule)]
There = Annotated[Installation, Depends(Installation.from_environment)]


def build() -> FastAPI:
    """Build the application, without FastAPI's own pages (docs, schema), which would be public."""
    app = FastAPI(
        title="SLC", dependencies=[Depends(get_user)], docs_url=None, redoc_url=None, openapi_url=None
    )
    app.middleware("http")(_harden)
    for kind in (StarletteHTTPException, RequestValidationError, SlcError):
        app.exception_handler(kind)(_error_page)
    app.get("/", response_class=HTMLResponse)(overview_page)
    app.get("/status.json")(status)
    app.get("/assets/{name}")(asset)
    app.get("/{name}", response_class=HTMLResponse)(deployment_page)
    app.get("/{name}/versions/{number}/report")(report)
    app.get("/{name}/versions/{number}/figures/{figure}.png")(figure)
    app.get("/{name}/replays/{span}")(replay)
    app.get("/{name}/windows/index.html")(all_windows)  # target of links between validation pages
    app.get("/{name}/windows/{key}/validation")(validation)
    app.get("/{name}/windows/{key}/validation.html")(validation)
    return app


def overview_page(request: Request, readable: Readable, there: There, may_read: MayRead) -> HTMLResponse:
    """Show every deployment that the user may read, and errors of the deployments file."""
    broken = [entry for entry in broken_entries(there) if not entry.name or may_read(entry.name)]
    return render(request, "overview.html", cards=cards(there, readable), broken=broken)


def deployment_page(
    request: Request,
    schedule: Allowed,
    installation: There,
    name: str,
    search: Annotated[str, Query(max_length=200)] = "",
    sort: str = "size",
    order: str = "down",
    page: Annotated[int, Query(ge=1, le=1000)] = 1,
    version: Annotated[int | None, Query(ge=1)] = None,
) -> HTMLResponse:
    """Show one deployment: its state, versions, ledger and items."""
    (card,) = cards(installation, {name: schedule})
    audited, audit = newest_audit(installation, name)
    shown = card.champion or card.challenger if version is None else _version(installation, name, version)
    origin = None if shown is None else refresh_of(installation, shown)
    sort = sort if sort in SORTS else "size"
    items = None
    if origin is not None:
        items = find_items(
            installation, origin, search=search, sort=sort, descending=order != "up", page=page
        )
    return render(
        request,
        "deployment.html",
        card=card,
        shown=shown,
        on_this_host=origin is not None,
        items=items,
        asked={
            "search": search,
            "sort": sort,
            "order": "up" if order == "up" else "down",
            "version": version,
        },
        reasons={version.number: why(installation, version) for version in card.versions[-SHOWN:]},
        versions_shown=SHOWN,
        replays=list(replays(installation, name)),
        audit={**audit, "window": audited} if audit.get("served") else {},
        moves=card.line[::-1],
    )


def status(readable: Readable, there: There) -> dict[str, Any]:
    """Return the content of ``slc-ops status --json`` for the deployments that the user may read."""
    found = cards(there, readable)
    return {
        "deployments": {
            card.name: {
                "champion": None if card.champion is None else card.champion.as_dict(),
                "challenger": None if card.challenger is None else card.challenger.as_dict(),
            }
            for card in found
        }
    }


def report(schedule: Allowed, there: There, name: str, number: int) -> FileResponse:
    """Return the report of the refresh that published a version."""
    origin = refresh_of(there, _version(there, name, number))
    return _written(there, None if origin is None else origin.files.report_page)


def figure(schedule: Allowed, there: There, name: str, number: int, figure: str) -> FileResponse:
    """Return a figure of that report."""
    origin = refresh_of(there, _version(there, name, number))
    path = None if origin is None or figure not in FIGURES else figure_file(origin, figure)
    return _written(there, path, "image/png")


def replay(schedule: Allowed, there: There, name: str, span: str) -> FileResponse:
    """Return the page of a replay that was started in Airflow."""
    return _written(there, replays(there, name).get(span))


def validation(schedule: Allowed, there: There, name: str, key: str) -> FileResponse:
    """Return the validation page of a window."""
    return _written(there, validation_page(there, name, key))


def all_windows(schedule: Allowed, there: There, name: str) -> FileResponse:
    """Return validation's list of windows."""
    return _written(there, there.windows(name) / "index.html")


def asset(name: str) -> Response:
    """Return the style sheet or the script."""
    if name not in ASSETS:
        raise HTTPException(404, "no such file")
    text, kind = ASSETS[name]
    return Response(text, media_type=kind, headers={"Cache-Control": "private, max-age=86400"})


def _version(installation: Installation, name: str, number: int) -> Version:
    try:
        return Registry.open(installation, create=False).ledger.version(name, number)
    except SlcError as error:
        raise HTTPException(404, str(error)) from None


def _written(installation: Installation, path: Path | None, kind: str = "text/html") -> FileResponse:
    if path is None or not is_ours(installation, path):
        raise HTTPException(
            404, "This is not on the API server's host; MLflow keeps it with the version's run."
        )
    return FileResponse(path, media_type=kind, headers={"Content-Security-Policy": WRITTEN})


async def _harden(request: Request, answer: Callable[[Request], Awaitable[Response]]) -> Response:
    response = await answer(request)
    response.headers.setdefault("Content-Security-Policy", OURS)
    response.headers.setdefault("Cache-Control", "private, no-cache")
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Referrer-Policy"] = "same-origin"
    return response


async def _error_page(request: Request, error: Exception) -> Response:
    """Return an HTML page to browsers, JSON to other clients."""
    if isinstance(error, StarletteHTTPException):
        status, message = error.status_code, str(error.detail)
    elif isinstance(error, RequestValidationError):
        status = 422
        message = "; ".join(f"{found['loc'][-1]}: {found['msg']}" for found in error.errors())
    else:
        status, message = 503, without_secrets(str(error))
    headers = getattr(error, "headers", None)
    if "text/html" in request.headers.get("accept", ""):
        page = render(request, "message.html", status=status, message=message, asks_login=status == 401)
        page.headers.update(headers or {})
        return page
    return JSONResponse({"detail": message}, status, headers)
