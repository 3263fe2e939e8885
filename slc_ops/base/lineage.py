"""OpenLineage events: the data sets that a step reads and writes.

Events are sent when the OpenLineage client is configured: ``OPENLINEAGE_URL``, ``OPENLINEAGE_CONFIG``,
variables ``OPENLINEAGE__…``, or a file ``openlineage.yml``. Otherwise nothing is imported. A server that does
not answer causes a warning in the log: lineage must not break the step.
"""

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from slc_ops import __version__
from slc_ops.base.window import Window

PRODUCER = f"urn:slc-ops:{__version__}"
FILE = "openlineage.yml"

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Data:
    """A data set by OpenLineage's names, with its version and number of rows if known."""

    namespace: str
    name: str
    version: str | None = None
    rows: int | None = None


def configured() -> bool:
    """Return True when OpenLineage is configured and not disabled.

    >>> configured()
    False
    """
    if os.environ.get("OPENLINEAGE_DISABLED", "").lower() == "true":
        return False
    named = {"OPENLINEAGE_URL", "OPENLINEAGE_CONFIG"} & os.environ.keys()
    return bool(named) or any(name.startswith("OPENLINEAGE__") for name in os.environ) or _file()


def _file() -> bool:
    return any((place / FILE).is_file() for place in (Path.cwd(), Path.home() / ".openlineage"))


@contextmanager
def _environment_kept() -> Iterator[None]:
    """Remove the variables that the client adds to the environment, which later processes would inherit."""
    before = set(os.environ)
    try:
        yield
    finally:
        for name in [name for name in os.environ if name.startswith("OPENLINEAGE__") and name not in before]:
            del os.environ[name]


@contextmanager
def lineage(
    step: str, deployment: str, window: Window, reads: Callable[[], Sequence[Data]], *, silent: bool = False
) -> Iterator[list[Data]]:
    """Emit START with the inputs, then COMPLETE with the outputs that the block appends to the list, or FAIL.

    ``reads`` is called only when OpenLineage is configured; a ``silent`` step emits nothing.
    """
    written: list[Data] = []
    teller = _teller(step, deployment, window, reads) if not silent and configured() else None
    ended = "FAIL"
    try:
        yield written
        ended = "COMPLETE"
    finally:
        if teller is not None:
            teller(ended, written)


def _teller(
    step: str, deployment: str, window: Window, reads: Callable[[], Sequence[Data]]
) -> Callable[[str, Sequence[Data]], bool] | None:
    """Emit START and return the function that emits the end of the run; None where START failed."""
    try:
        from openlineage.client import OpenLineageClient
        from openlineage.client.event_v2 import Job, Run, RunEvent, RunState
        from openlineage.client.facet_v2 import nominal_time_run, processing_engine_run
        from openlineage.client.uuid import generate_new_uuid

        with _environment_kept():
            client = OpenLineageClient()
        namespace = os.environ.get("OPENLINEAGE_NAMESPACE") or "slc_ops"
        run = Run(
            runId=str(generate_new_uuid()),
            facets={
                "nominalTime": nominal_time_run.NominalTimeRunFacet(
                    window.start.isoformat(), window.end.isoformat(), producer=PRODUCER
                ),
                "processing_engine": processing_engine_run.ProcessingEngineRunFacet(
                    __version__, name="slc_ops", producer=PRODUCER
                ),
            },
        )
        job = Job(namespace=namespace, name=f"{deployment}.{step}")
        inputs = [_dataset(each, written=False) for each in reads()]
    except ImportError:
        _log.warning("OpenLineage is configured, but not installed; run: pip install 'slc-ops[lineage]'")
        return None
    except Exception as error:  # third-party client and configuration
        _log.warning("no lineage of %s: %s", step, error)
        return None

    def emit(state: str, outputs: Sequence[Data]) -> bool:
        try:
            client.emit(
                RunEvent(
                    eventType=RunState[state],
                    eventTime=datetime.now(UTC).isoformat(),
                    run=run,
                    job=job,
                    inputs=inputs,
                    outputs=[_dataset(each, written=True) for each in outputs],
                    producer=PRODUCER,
                )
            )
        except Exception as error:
            _log.warning("the lineage of %s was not sent: %s", step, error)
            return False
        return True

    return emit if emit("START", ()) else None


def _dataset(data: Data, *, written: bool) -> Any:
    from openlineage.client.event_v2 import InputDataset, OutputDataset
    from openlineage.client.facet_v2 import dataset_version_dataset, output_statistics_output_dataset

    named: dict[str, Any] = {"namespace": data.namespace, "name": data.name, "facets": {}}
    if data.version is not None:
        version = dataset_version_dataset.DatasetVersionDatasetFacet(data.version, producer=PRODUCER)
        named["facets"]["version"] = version
    if not written:
        return InputDataset(**named)
    counted: dict[str, Any] = {}
    if data.rows is not None:
        facet = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet
        counted["outputStatistics"] = facet(rowCount=data.rows, producer=PRODUCER)
    return OutputDataset(**named, outputFacets=counted)
