"""What others may schedule on: a validated window, a new champion."""

from airflow.sdk import Asset


def window_asset(deployment: str) -> Asset:
    """Updated whenever a window of the deployment has passed validation.

    >>> window_asset("demo").uri
    'slc://demo/window'
    """
    return Asset(name=f"slc {deployment} window", uri=f"slc://{deployment}/window", group="slc")


def champion_asset(deployment: str) -> Asset:
    """Updated whenever the champion of the deployment moves, by schedule, by form or back.

    >>> champion_asset("demo").uri
    'slc://demo/champion'
    """
    return Asset(name=f"slc {deployment} champion", uri=f"slc://{deployment}/champion", group="slc")
