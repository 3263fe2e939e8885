"""Makes the pool of promotions when Airflow starts, unless it exists.

Tasks whose pool does not exist wait for ever, and only the scheduler's log says why.
"""

from contextlib import suppress
from typing import Any, ClassVar

from airflow.listeners import hookimpl
from airflow.plugins_manager import AirflowPlugin


class PoolMaker:
    """Airflow's listener for the start of its components."""

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


class SlcPool(AirflowPlugin):
    """The listener as a plugin."""

    name = "slc_pool"
    listeners: ClassVar = [PoolMaker()]
