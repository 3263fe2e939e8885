"""The page "SLC" in Airflow's navigation; everything behind it is in :mod:`slc_ops.airflow.page`."""

from functools import cache
from typing import Any

from airflow.plugins_manager import AirflowPlugin


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
    fastapi_apps = [{"app": page, "url_prefix": "/slc", "name": "SLC"}]  # noqa: RUF012 - Airflow's interface
    external_views = [  # noqa: RUF012 - Airflow's interface
        {"name": "SLC", "href": "/slc/", "destination": "nav", "url_route": "slc"}
    ]
