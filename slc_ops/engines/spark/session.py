"""Reach a Spark cluster, or say within seconds why it cannot be reached.

Spark itself tries a silent master for a minute, and waits for workers for ever. A refresh must not: it asks
the master's port first, and gives the cluster ``SLC_OPS_SPARK_WAIT`` seconds (60) to hand out an executor.
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
# One core an executor: a split's columns are kept by the one Python worker that has read them.
SETTINGS = {
    "spark.app.name": "slc-ops",
    "spark.executor.cores": "1",
    "spark.python.worker.reuse": "true",
    "spark.locality.wait": "300ms",  # an idle executor reads a waiting split itself rather than stay idle
    "spark.sql.adaptive.enabled": "false",  # its plan of shuffles would change from pass to pass
    "spark.sql.codegen.wholeStage": "false",  # every pass is a new, tiny plan: compiling it costs more
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "8",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}


def master_url() -> str:
    """``SLC_OPS_SPARK_MASTER``: where a cluster is, belongs to the installation and not to a deployment."""
    found = RowVariables.read().spark_master
    if not found:
        raise SettingsError(
            "engine: spark needs a cluster: set SLC_OPS_SPARK_MASTER, for example to spark://host:7077"
        )
    return found


def open_session(master: str) -> "SparkSession":
    """A session on the cluster with at least one executor; this process's own, if it has one there."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # pandas 3; nothing here goes through pandas
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
    except Exception as error:  # py4j wraps whatever the JVM threw
        raise ClusterUnavailable(f"{master} did not accept the application: {first_line(error)}") from None
    if "PYSPARK_PYTHON" not in os.environ:
        session.sparkContext.pythonExec = sys.executable
    if running is None or not executors(session):
        wait_for_executor(session, master, wait)
    return session


def check_port(master: str) -> None:
    """Knock at the master's door."""
    if not master.startswith("spark://"):
        return  # local[2], yarn, k8s://…: Spark knows these itself
    problems = []
    for address in master.removeprefix("spark://").split(","):
        parts = urlsplit(f"spark://{address}")
        try:
            if parts.hostname is None or parts.port is None:
                raise ValueError("no host and port")
        except ValueError:
            raise SettingsError(f"{master!r} is no Spark master; expected spark://host:port") from None
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
    """How long a cluster may take to hand out an executor, at first and again after all were lost."""
    return RowVariables.read().spark_wait


def wait_for_executor(session: "SparkSession", master: str, seconds: float) -> None:
    """Until executors are there and no more come; without workers Spark would wait for ever.

    The first pass decides which executor keeps which split: one that came late would have nothing to do.
    """
    end = time.monotonic() + seconds
    found, since = 0, time.monotonic()
    while not found or time.monotonic() - since < SETTLED_SECONDS:
        if (now := executors(session)) != found:
            found, since = now, time.monotonic()
        if not found and time.monotonic() > end:
            session.stop()
            raise ClusterUnavailable(
                f"{master} gave no executor within {seconds:g} s; look whether it has workers with free "
                "cores and memory"
            )
        time.sleep(0.1)


def executors(session: "SparkSession") -> int:
    """How many executors the application has now."""
    if session.sparkContext.master.startswith("local"):
        return 1
    return int(session.sparkContext._jsc.sc().getExecutorMemoryStatus().size()) - 1


def first_line(error: BaseException) -> str:
    """What an error says, without the stack traces around it."""
    lines = [line.rstrip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    if any(line.startswith("Traceback") for line in lines):  # from Python on a worker: the last line says it
        lines = [line for line in lines if line[0].isalpha() and ": " in line][-1:] or lines
    told = [line.strip() for line in lines if not line.strip().startswith(("at ", "An error occurred"))]
    return (told or lines)[0].removeprefix(": ")
