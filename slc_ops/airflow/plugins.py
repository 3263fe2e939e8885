"""The Airflow plugin, found through an entry point; nothing is copied into the plugins folder.

Airflow loads this module in every process, even for each task, so it imports as little as possible.
"""

from functools import cache
from typing import Any, ClassVar
from urllib.parse import urlsplit

from airflow.configuration import conf
from airflow.plugins_manager import AirflowPlugin

from slc_ops.airflow import require_airflow
from slc_ops.airflow.timetable import WindowTimetable

require_airflow()
PREFIX = urlsplit(conf.get("api", "base_url", fallback="")).path.rstrip("/")
"""The path prefix of Airflow itself; its UI adds no prefix to page addresses."""


@cache
def _page() -> Any:
    from slc_ops.airflow.page.app import build

    return build()


async def page(scope: Any, receive: Any, send: Any) -> None:
    """Serve the application, which is built on the first request.

    Only the API server thus loads the web application.
    """
    await _page()(scope, receive, send)


class SlcPage(AirflowPlugin):  # type: ignore[misc]  # Airflow's classes are not followed
    """The page "SLC" in Airflow's navigation, with Airflow's authentication and permissions.

    The plugin also registers the timetable of the DAGs.
    """

    name = "slc_page"
    fastapi_apps: ClassVar = [{"app": page, "url_prefix": "/slc", "name": "SLC"}]
    external_views: ClassVar = [
        {"name": "SLC", "href": f"{PREFIX}/slc/", "destination": "nav", "url_route": "slc"}
    ]
    timetables: ClassVar = [WindowTimetable]
