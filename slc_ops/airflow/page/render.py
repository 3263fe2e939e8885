"""Templates and their filters."""

import re
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup, escape

from slc_ops.airflow.page.overview import FIGURES, days
from slc_ops.base.digests import digest_text
from slc_ops.base.text import MISSING, interval
from slc_ops.evidence.metrics import Metric, paired_metrics
from slc_ops.observability.links import mlflow_page
from slc_ops.registry import Version
from slc_ops.reporting import style

HERE = Path(__file__).parent / "templates"
ASSETS = {
    "page.css": ((HERE / "page.css").read_text(encoding="utf-8"), "text/css"),
    "page.js": ((HERE / "page.js").read_text(encoding="utf-8"), "text/javascript"),
}
DATES = re.compile(r"\d{4}-\d\d-\d\d(?:/\d{4}-\d\d-\d\d)?")
STAMP = digest_text("".join(text for text, _ in ASSETS.values()))[:8]


@cache
def templates() -> Environment:
    """Return the template environment of the page."""
    environment: Environment = style.templates(FileSystemLoader(HERE))
    environment.filters |= {
        "days": days,
        "interval": _interval,
        "timestamp": lambda value: f"{value:%Y-%m-%d %H:%M} UTC",
        "unbroken": unbroken,
    }
    environment.globals |= {"mlflow_version": _mlflow_version, "stamp": STAMP, "paired": paired_metrics}
    environment.globals |= {"figures": FIGURES}
    return environment


def render(request: Request, template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """Render a page; ``here`` is the mount path of the page, ``airflow`` that of Airflow's own pages."""
    here = str(request.scope.get("root_path", "")).rstrip("/")
    airflow = here.rsplit("/", 1)[0]

    def link(path: str, **query: Any) -> str:
        asked = {key: value for key, value in query.items() if value not in (None, "")}
        return f"{here}/{quote(path)}" + (f"?{urlencode(asked)}" if asked else "")

    text = templates().get_template(template).render(here=here, airflow=airflow, link=link, **values)
    return HTMLResponse(text, status_code=status)


def unbroken(sentence: str) -> Markup:
    """Return a sentence whose dates and windows do not break at their hyphens.

    >>> print(unbroken("no verdict for 2026-11-09/2026-11-16 <b>"))
    no verdict for <span class="days">2026-11-09/2026-11-16</span> &lt;b&gt;
    """
    return Markup(DATES.sub(r'<span class="days">\g<0></span>', str(escape(sentence))))  # noqa: S704 - escaped here


def _mlflow_version(version: Version) -> str | None:
    return mlflow_page(version.deployment, version.number)


def _interval(version: Version, metric: Metric) -> str:
    found = (version.metrics.get("vs_platt") or {}).get(metric.name)
    return interval(**found, form=metric.signed) if found else MISSING
