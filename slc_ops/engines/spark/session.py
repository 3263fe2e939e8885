"""Connect to a Spark cluster, or fail within seconds with the reason.

Spark itself tries an unresponsive master for a minute, and waits for workers for ever. A refresh must not: it
checks the master's port first, and waits ``SLC_OPS_SPARK_WAIT`` seconds (60) for an executor.
"""

import os
import socket
import sys
import time
import warnings
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from slc_ops.base.errors import ClusterUnavailable, SettingsError
from slc_ops.settings.environment import RowVariables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONNECT_SECONDS = 5.0
SETTLED_SECONDS = 2.0
# One core per executor: the one Python worker that has read a split caches its columns.
SETTINGS = {
    "spark.app.name": "slc-ops",
    "spark.executor.cores": "1",
    "spark.python.worker.reuse": "true",
    "spark.locality.wait": "300ms",  # an idle executor reads a waiting split itself
    "spark.sql.adaptive.enabled": "false",  # the plan of shuffles would vary between passes
    "spark.sql.codegen.wholeStage": "false",  # every pass is a new, tiny plan: compilation costs more
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "8",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}


def master_url() -> str:
    """Return ``SLC_OPS_SPARK_MASTER``: the cluster belongs to the installation, not to a deployment."""
    found = RowVariables.read().spark_master
    if not found:
        raise SettingsError(
            "engine: spark needs a cluster: set SLC_OPS_SPARK_MASTER, for example to spark://host:7077"
        )
    return found


def open_session(master: str) -> "SparkSession":
    """Return a session on the cluster with at least one executor; reuse this process's session."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # pandas 3; nothing here uses pandas
            from pyspark.sql import SparkSession
    except ImportError:
        raise SettingsError(
            "engine: spark needs PySpark, which is not installed; install slc-ops[spark] (here: make spark)"
        ) from None
    wait = wait_seconds()
    check_port(master)
    running = SparkSession.getActiveSession()
    if running is not None and running.sparkContext.master != master:
        raise SettingsError(
            f"this process already works on {running.sparkContext.master} and cannot also work on {master}"
        )
    builder = SparkSession.builder.master(master)
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    try:
        session = builder.getOrCreate()
    except Exception as error:  # py4j wraps every error of the JVM
        raise ClusterUnavailable(f"{master} did not accept the application: {first_line(error)}") from None
    if "PYSPARK_PYTHON" not in os.environ:
        session.sparkContext.pythonExec = sys.executable
    if running is None or not executors(session):
        wait_for_executor(session, master, wait)
    return session


def check_port(master: str) -> None:
    """Raise :class:`ClusterUnavailable` when no port of the master accepts a connection."""
    if not master.startswith("spark://"):
        return  # local[2], yarn, k8s://…: Spark handles these itself
    problems = []
    for address in master.removeprefix("spark://").split(","):
        parts = urlsplit(f"spark://{address}")
        try:
            if parts.hostname is None or parts.port is None:
                raise ValueError("no host and port")
        except ValueError:
            raise SettingsError(f"{master!r} is not a Spark master; expected spark://host:port") from None
        try:
            socket.create_connection((parts.hostname, parts.port), CONNECT_SECONDS).close()
        except OSError as error:
            problems.append(f"{address}: {error.strerror or error}")
        else:
            return
    raise ClusterUnavailable(
        f"the Spark master {master} cannot be reached ({'; '.join(problems)}); start it or "
        "correct SLC_OPS_SPARK_MASTER"
    )


def wait_seconds() -> float:
    """Return the time limit for the first executor, and for a new one after all were lost, in seconds."""
    return RowVariables.read().spark_wait


def wait_for_executor(session: "SparkSession", master: str, seconds: float) -> None:
    """Wait until executors exist and their number is stable; without workers Spark would wait for ever.

    The first pass assigns splits to executors: a late one would have no work.
    """
    end = time.monotonic() + seconds
    found, since = 0, time.monotonic()
    while not found or time.monotonic() - since < SETTLED_SECONDS:
        if (now := executors(session)) != found:
            found, since = now, time.monotonic()
        if not found and time.monotonic() > end:
            session.stop()
            raise ClusterUnavailable(
                f"{master} gave no executor within {seconds:g} s; check that it has workers with free "
                "cores and memory"
            )
        time.sleep(0.1)


def executors(session: "SparkSession") -> int:
    """Return the current number of executors."""
    if session.sparkContext.master.startswith("local"):
        return 1
    return int(session.sparkContext._jsc.sc().getExecutorMemoryStatus().size()) - 1


def first_line(error: BaseException) -> str:
    """Return an error's message without the stack traces around it."""
    lines = [line.rstrip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    if any(line.startswith("Traceback") for line in lines):  # a worker's: its last line is the message
        lines = [line for line in lines if line[0].isalpha() and ": " in line][-1:] or lines
    told = [line.strip() for line in lines if not line.strip().startswith(("at ", "An error occurred"))]
    return (told or lines)[0].removeprefix(": ")
