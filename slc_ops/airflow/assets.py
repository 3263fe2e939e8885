"""Assets for other DAGs' schedules: a validated window, a new champion."""

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


def tell_of(asset: Any, window: str, **extra: Any) -> None:
    """Add the window to the running task's events of an asset, if the task has it as outlet."""
    context = get_current_context()
    if asset not in context["task"].outlets:
        return
    event = context["outlet_events"][asset]
    event.extra = {**extra, "window": window}
    if asset.uri.endswith(PARTITIONS):
        event.add_partitions(window)


def _asset(deployment: str, what: str, partitioned: bool) -> Asset:
    more = PARTITIONS if partitioned else ""
    name = f"slc {deployment} {what}{more.replace('/', ' ')}"
    return Asset(name=name, uri=f"slc://{deployment}/{what}{more}", group="slc")
