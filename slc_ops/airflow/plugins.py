"""Airflow plugins, found through entry points; nothing is copied into the plugins folder.

Airflow loads this module in every process, even for each task, so it imports as little as possible.
"""

from contextlib import suppress
from functools import cache
from typing import Any, ClassVar
from urllib.parse import urlsplit

from airflow.configuration import conf
from airflow.listeners import hookimpl
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
    """The page "SLC" in Airflow's navigation, with Airflow's authentication and permissions."""

    name = "slc_page"
    fastapi_apps: ClassVar = [{"app": page, "url_prefix": "/slc", "name": "SLC"}]
    external_views: ClassVar = [
        {"name": "SLC", "href": f"{PREFIX}/slc/", "destination": "nav", "url_route": "slc"}
    ]


class PoolMaker:
    """Create the promotion pool when Airflow starts, unless it exists.

    Tasks of a missing pool wait forever; only the scheduler's log gives the reason.
    """

    @hookimpl
    def on_starting(self, component: Any) -> None:
        """Create the pool in jobs, such as the scheduler, which have the metadata database; not in tasks."""
        if type(component).__name__ != "Job":
            return
        from airflow.models.pool import Pool
        from airflow.utils.session import create_session
        from sqlalchemy.exc import IntegrityError

        from slc_ops.airflow.retries import PROMOTION_POOL

        pool = Pool(
            pool=PROMOTION_POOL, slots=1, description="one promotion at a time", include_deferred=False
        )
        with suppress(IntegrityError), create_session() as session:  # another process may create it first
            if Pool.get_pool(PROMOTION_POOL, session=session) is None:
                session.add(pool)


class SlcPool(AirflowPlugin):  # type: ignore[misc] # Airflow has no types for it
    """Plugin for the scheduler: the pool listener and the timetable of the DAGs."""

    name = "slc_pool"
    listeners: ClassVar = [PoolMaker()]
    timetables: ClassVar = [WindowTimetable]
