"""Observation of a refresh's steps: logs with deployment and window, and records of their times.

The records are beside the refreshes of a window, one small file per step, replaced by the step's next run.
They contain times and outcomes, never results: no result depends on them.
"""

import inspect
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from slc_ops.base.errors import RegistryError, SettingsError, SourceUnavailable, StorageError
from slc_ops.base.files import storage_refusal, write_json
from slc_ops.base.window import Window
from slc_ops.refresh.files import STEPS

P = ParamSpec("P")
T = TypeVar("T")

MAX_ERROR_LENGTH = 300
"""Maximum stored characters of an error."""
QUOTES_NO_ROW = (RegistryError, SettingsError, SourceUnavailable, StorageError)
"""Errors whose text may be stored: it contains no user's row, which an erasure would have to find."""
_log = logging.getLogger(__name__)
_inside: ContextVar[bool] = ContextVar("inside a step", default=False)


def observed(function: Callable[P, T]) -> Callable[P, T]:
    """Observe a pipeline step, with ``plan``, or ``installation``, ``name`` and ``window``."""
    signature = inspect.signature(function)

    @wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> T:
        if _inside.get():  # a step that calls another one is still one step
            return function(*args, **kwargs)
        given = signature.bind(*args, **kwargs).arguments
        name = f"{function.__name__}-{given['fold'].key}" if "fold" in given else function.__name__
        if (plan := given.get("plan")) is not None:
            subject = plan.deployment, plan.window, plan.directory.parent
        else:
            refreshes = given["installation"].refreshes(given["name"])
            subject = given["name"], given["window"], refreshes / given["window"].key
        with step(name, *subject):
            return function(*args, **kwargs)

    return wrapper


@contextmanager
def step(name: str, deployment: str, window: Window, refreshes: Path) -> Iterator[None]:
    """Run a block as the step ``name``; its record goes below ``refreshes``, the window's directory."""
    from structlog.contextvars import bound_contextvars

    record: dict[str, Any] = {"step": name, "started": time.time(), "outcome": "failed"}
    token = _inside.set(True)
    try:
        with bound_contextvars(deployment=deployment, window=str(window), step=name):
            _log.info("%s of %s for %s begins", name, deployment, window)
            try:
                yield
                record["outcome"] = "finished"
            except QUOTES_NO_ROW as error:
                record["error"] = str(error)[:MAX_ERROR_LENGTH]
                raise
            except OSError as error:
                record["error"] = storage_refusal(error)
                raise
            finally:
                record["ended"] = time.time()
                seconds = record["ended"] - record["started"]
                _log.info(
                    "%s of %s for %s %s after %.1f s", name, deployment, window, record["outcome"], seconds
                )
                _keep(refreshes / STEPS / f"{name}.json", record)
    finally:
        _inside.reset(token)


def _keep(path: Path, record: dict[str, Any]) -> None:
    """Write the record; a failure is logged and does not fail the step."""
    try:
        write_json(path, record)
    except OSError as error:
        _log.warning("the record %s was not written: %s", path, error)
