"""Assets for other DAGs' schedules: a validated window, a new champion."""

from collections.abc import Callable
from typing import Any

from airflow.sdk import Asset, get_current_context

PARTITIONS = "/partitions"


def window_asset(deployment: str, *, partitioned: bool = False) -> Asset:
    """Return the asset that is updated when a window of the deployment passes validation.

    With ``partitioned``, return a separate asset with the window as partition key: Airflow delivers such
    events only to DAGs with a ``PartitionedAssetTimetable``.

    >>> window_asset("demo").uri, window_asset("demo", partitioned=True).uri
    ('slc://demo/window', 'slc://demo/window/partitions')
    """
    return _asset(deployment, "window", partitioned)


def champion_asset(deployment: str, *, partitioned: bool = False) -> Asset:
    """Return the asset that is updated when the deployment's champion changes: by schedule, form or rollback.

    With ``partitioned``, return the asset of scheduled promotions, with the window as partition key.

    >>> champion_asset("demo").uri
    'slc://demo/champion'
    """
    return _asset(deployment, "champion", partitioned)


def both(of: Callable[..., Asset], deployment: str) -> list[Asset]:
    """Return an asset without and with partitions, as outlets of a task."""
    return [of(deployment), of(deployment, partitioned=True)]


def tell_of(assets: list[Asset], window: str, **extra: Any) -> None:
    """Add the window to the running task's events of assets, as far as the task has them as outlets."""
    context = get_current_context()
    for asset in assets:
        if asset in context["task"].outlets:
            event = context["outlet_events"][asset]
            event.extra = {**extra, "window": window}
            if asset.uri.endswith(PARTITIONS):
                event.add_partitions(window)


def _asset(deployment: str, what: str, partitioned: bool) -> Asset:
    more = PARTITIONS if partitioned else ""
    name = f"slc {deployment} {what}{more.replace('/', ' ')}"
    return Asset(name=name, uri=f"slc://{deployment}/{what}{more}", group="slc")
