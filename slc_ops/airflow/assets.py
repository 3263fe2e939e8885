"""What others may schedule on: a validated window, a new champion."""

from typing import Any

from airflow.sdk import Asset, get_current_context

PARTITIONS = "/partitions"


def window_asset(deployment: str, *, partitioned: bool = False) -> Asset:
    """Updated whenever a window of the deployment has passed validation.

    With ``partitioned`` the asset whose events have the window as partition key: Airflow shows those to DAGs
    with a ``PartitionedAssetTimetable`` alone, so it is an asset of its own.

    >>> window_asset("demo").uri, window_asset("demo", partitioned=True).uri
    ('slc://demo/window', 'slc://demo/window/partitions')
    """
    return _asset(deployment, "window", partitioned)


def champion_asset(deployment: str, *, partitioned: bool = False) -> Asset:
    """Updated whenever the champion of the deployment moves, by schedule, by form or back.

    With ``partitioned`` the asset of promotions by the schedule, with their window as partition key.

    >>> champion_asset("demo").uri
    'slc://demo/champion'
    """
    return _asset(deployment, "champion", partitioned)


def tell_of(asset: Any, window: str, **extra: Any) -> None:
    """Say in the running task's events of an asset, where it has them, which window they are about."""
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
