"""The page "SLC" in Airflow's navigation; everything behind it is in :mod:`slc_ops.airflow.page`."""

from functools import cache
from typing import Any, ClassVar
from urllib.parse import urlsplit

from airflow.configuration import conf
from airflow.plugins_manager import AirflowPlugin

PREFIX = urlsplit(conf.get("api", "base_url", fallback="")).path.rstrip("/")
"""The path under which Airflow itself is reached; its UI puts nothing before the address of a page."""


@cache
def _page() -> Any:
    from slc_ops.airflow.page.app import build

    return build()


async def page(scope: Any, receive: Any, send: Any) -> None:
    """The application, built for the first request.

    Airflow loads plugins in every process, also in that of each task; only the API server should pay for a
    web application.
    """
    await _page()(scope, receive, send)


class SlcPage(AirflowPlugin):
    """One page; authentication and rights are Airflow's own."""

    name = "slc_page"
    fastapi_apps: ClassVar = [{"app": page, "url_prefix": "/slc", "name": "SLC"}]
    external_views: ClassVar = [
        {"name": "SLC", "href": f"{PREFIX}/slc/", "destination": "nav", "url_route": "slc"}
    ]
