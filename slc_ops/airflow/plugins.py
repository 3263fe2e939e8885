"""The plugins, found by Airflow through entry points: nothing has to be copied into its plugins folder.

Airflow loads them in every process, also in that of each task, so this module imports next to nothing.
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
"""The path under which Airflow itself is reached; its UI puts nothing before the address of a page."""


@cache
def _page() -> Any:
    from slc_ops.airflow.page.app import build

    return build()


async def page(scope: Any, receive: Any, send: Any) -> None:
    """The application, built for the first request.

    Only the API server should pay for a web application.
    """
    await _page()(scope, receive, send)


class SlcPage(AirflowPlugin):  # type: ignore[misc]  # Airflow's classes are not followed
    """The page "SLC" in Airflow's navigation; authentication and rights are Airflow's own."""

    name = "slc_page"
    fastapi_apps: ClassVar = [{"app": page, "url_prefix": "/slc", "name": "SLC"}]
    external_views: ClassVar = [
        {"name": "SLC", "href": f"{PREFIX}/slc/", "destination": "nav", "url_route": "slc"}
    ]


class PoolMaker:
    """Makes the pool of promotions when Airflow starts, unless it exists.

    Tasks whose pool does not exist wait for ever, and only the scheduler's log says why.
    """

    @hookimpl
    def on_starting(self, component: Any) -> None:
        """A job is the scheduler or another process beside the metadata database; a task is none."""
        if type(component).__name__ != "Job":
            return
        from airflow.models.pool import Pool
        from airflow.utils.session import create_session
        from sqlalchemy.exc import IntegrityError

        from slc_ops.airflow.retries import PROMOTION_POOL

        pool = Pool(
            pool=PROMOTION_POOL, slots=1, description="one promotion at a time", include_deferred=False
        )
        with suppress(IntegrityError), create_session() as session:  # another process may be first
            if Pool.get_pool(PROMOTION_POOL, session=session) is None:
                session.add(pool)


class SlcPool(AirflowPlugin):  # type: ignore[misc]
    """What the scheduler needs: the maker of the pool, and the timetable that DAGs name."""

    name = "slc_pool"
    listeners: ClassVar = [PoolMaker()]
    timetables: ClassVar = [WindowTimetable]
