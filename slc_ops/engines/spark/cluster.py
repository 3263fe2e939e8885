"""Run a function over all splits of a log, and add up its results.

A frame has one row per split, and Spark caches it: the tasks of later passes run on the executor that holds
the row, where a Python worker caches the split's columns. A task (``mapInArrow``) returns one small row: its
partial sums. The driver sums at most 64 of them (fewer where sums are long); more are first added on the
cluster, group by group (``groupBy(…).applyInArrow``), so the driver's memory does not grow with the rows.
Groups are consecutive splits, added in order: the same files give the same sums, on any cluster and after any
number of retries.
"""

import gc
import pickle
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from slc_ops.base import errors
from slc_ops.base.code_version import code_version
from slc_ops.base.errors import ClusterUnavailable, SettingsError, SlcError
from slc_ops.engines.spark.session import executors, first_line, wait_seconds
from slc_ops.engines.spark.splits import Dictionaries, Split, open_split
from slc_ops.rows.passes import Addable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ANSWER = "number long, payload binary, error string"
MOST_PARTS = 64
DRIVER_BYTES = 256 << 20
KEY_BYTES = 12  # size of the sums, per key
_ARROW = pa.schema([("number", pa.int64()), ("payload", pa.binary()), ("error", pa.string())])


@dataclass(frozen=True)
class Task:
    """The work of a Python worker on the splits of its partition: one answer each."""

    splits: Any
    dictionaries: Dictionaries | None
    work: Callable[[Any], Any]
    code: str = field(default_factory=code_version)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield an answer for each row of the frame."""
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield answer_of(number, partial(self._one, number))

    def _one(self, number: int) -> Any:
        check_code(self.code)
        split: Split = self.splits.value[number]
        return self.work(split if self.dictionaries is None else open_split(split, self.dictionaries))


def check_code(code: str) -> None:
    """Raise when the driver runs other code than this worker."""
    if code != code_version():
        raise SettingsError(
            f"a worker of the cluster runs slc_ops {code_version()}, but this refresh {code}: their "
            "results may differ; install the same slc_ops on all workers"
        )


def answer_of(number: int, work: Callable[[], Any]) -> pa.RecordBatch:
    """Return the answer of ``work``; an :class:`SlcError` is an answer, too, as a retry would not help."""
    try:
        payload, error = pickle.dumps(work(), protocol=5), None
    except SlcError as problem:
        payload, error = None, as_text(problem)
    freeze_imports()
    return pa.record_batch([[number], [payload], [error]], schema=_ARROW)


@cache
def freeze_imports() -> None:
    """Exclude what the first task imported from garbage collection.

    A Python worker of Spark collects after every task; without this it spends nine tenths of its time there.
    """
    gc.freeze()


def as_text(error: SlcError) -> str:
    """Serialise an error for the driver: its class (the nearest one that takes a text) and its message."""
    ours = (each for each in type(error).__mro__ if each.__module__ == errors.__name__)
    kind = next(each for each in ours if "__init__" not in vars(each))
    return f"{kind.__name__}: {error}"


def raise_first(found: pa.ChunkedArray) -> None:
    """Raise the first error among the answers."""
    for error in sorted(found.drop_null().to_pylist())[:1]:
        kind, _, text = error.partition(": ")
        raise getattr(errors, kind)(text)


def added(answers: pa.Table) -> Any:
    """Return the sum of some answers, in the order of their splits."""
    answers = answers.sort_by("number")
    raise_first(answers["error"])
    # Payloads are loaded one at a time, to limit memory.
    total: Addable | None = None
    for answer in answers["payload"]:
        part = pickle.loads(answer.as_buffer())  # noqa: S301 - from our own worker, never from a file
        if total is None:
            total = part
        else:
            total.merge(part)
    return total


def added_group(key: tuple[pa.Scalar, ...], answers: pa.Table) -> pa.Table:
    """Return the sum of a group of consecutive answers as one answer."""
    return pa.Table.from_batches([answer_of(key[0].as_py(), partial(added, answers))])


def add_up(session: "SparkSession", frame: "DataFrame", task: Task, parts: int, n_keys: int) -> Any:
    """Return the sum of the task's answers over all ``parts`` splits of the frame."""
    fan = max(2, min(MOST_PARTS, DRIVER_BYTES // (KEY_BYTES * max(1, n_keys))))
    answers = mapped(frame, task, ANSWER)
    while parts > fan:
        groups = answers.selectExpr(f"number div {fan} as key", "*").groupBy("key")
        with quiet():
            answers = groups.applyInArrow(added_group, ANSWER)
        parts = -(-parts // fan)
    return added(collected(session, answers))


def mapped(frame: "DataFrame", task: Callable[..., Any], schema: str) -> "DataFrame":
    """Apply ``mapInArrow`` without PySpark's warnings."""
    with quiet():
        return frame.mapInArrow(task, schema)


def collected(session: "SparkSession", frame: "DataFrame") -> pa.Table:
    """Run the job; give up when all executors are lost, because Spark would wait for new ones for ever."""
    done = threading.Event()
    lost = threading.Event()

    def watch() -> None:
        wait, seen = wait_seconds(), time.monotonic()
        while not done.wait(2.0):
            if executors(session):
                seen = time.monotonic()
            elif time.monotonic() - seen > wait:
                lost.set()
                session.sparkContext.cancelAllJobs()
                return

    watcher = threading.Thread(target=watch, daemon=True, name="slc-ops-executors")
    watcher.start()
    try:
        with quiet():
            return frame.toArrow()
    except Exception as error:  # py4j wraps every error of the cluster
        if lost.is_set():
            raise ClusterUnavailable(
                f"{session.sparkContext.master} lost all executors and gave no new one within "
                f"{wait_seconds():g} s; check its workers"
            ) from None
        raise ClusterUnavailable(f"the cluster gave up: {first_line(error)}") from error
    finally:
        done.set()


class quiet(warnings.catch_warnings):  # noqa: N801 - used like a function
    """Suppress PySpark's warning about pandas 3 on each use of Arrow; nothing here uses pandas."""

    def __enter__(self) -> Any:
        entered = super().__enter__()
        warnings.simplefilter("ignore", FutureWarning)
        return entered
