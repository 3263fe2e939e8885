"""Templates, and what they may call."""

import hashlib
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from slc_ops.airflow.page.overview import week
from slc_ops.refresh.gate import interval
from slc_ops.registry import Version, model_name
from slc_ops.settings.environment import LinkVariables

HERE = Path(__file__).parent / "templates"
ASSETS = {
    "page.css": ((HERE / "page.css").read_text(encoding="utf-8"), "text/css"),
    "page.js": ((HERE / "page.js").read_text(encoding="utf-8"), "text/javascript"),
}
STAMP = hashlib.sha256("".join(text for text, _ in ASSETS.values()).encode()).hexdigest()[:8]


@cache
def templates() -> Environment:
    """Escapes everything, and an unknown name is an error."""
    environment = Environment(loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined)
    environment.filters |= {
        "week": week,
        "interval": _interval,
        "figure": _figure,
        "signed": _signed,
        "moment": _moment,
        "count": _count,
    }
    environment.globals |= {"mlflow_version": mlflow_version, "stamp": STAMP}
    environment.trim_blocks = environment.lstrip_blocks = True
    return environment


def render(request: Request, template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """A page. ``here`` is where the page is mounted, ``airflow`` where Airflow's own pages are."""
    here = str(request.scope.get("root_path", "")).rstrip("/")
    airflow = here.rsplit("/", 1)[0]

    def link(path: str, **query: Any) -> str:
        asked = {key: value for key, value in query.items() if value not in (None, "")}
        return f"{here}/{quote(path)}" + (f"?{urlencode(asked)}" if asked else "")

    text = templates().get_template(template).render(here=here, airflow=airflow, link=link, **values)
    return HTMLResponse(text, status_code=status)


def mlflow_version(version: Version) -> str | None:
    """The version's page in MLflow, where its address is known."""
    found = LinkVariables.read()
    address = found.mlflow_url or found.tracking_uri or ""
    if not address.startswith(("http://", "https://")):
        return None
    return f"{address.rstrip('/')}/#/models/{model_name(version.deployment)}/versions/{version.number}"


def _interval(version: Version, metric: str) -> str:
    found = (version.metrics.get("vs_platt") or {}).get(metric)
    return interval(found) if found else "–"


def _figure(value: float | None, digits: int = 4) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def _signed(value: float | None, digits: int = 3) -> str:
    return "–" if value is None else f"{value:+.{digits}f}".replace("-", "−")


def _count(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"


def _moment(value: datetime) -> str:
    return f"{value:%Y-%m-%d %H:%M} UTC"
