"""The engine of deployments with ``engine: spark``: the same kernels on a Spark cluster.

* :mod:`~slc_ops.engines.spark.session` connects to the cluster, or fails within seconds with the reason;
* :mod:`~slc_ops.engines.spark.splits` divides Parquet files into runs of row groups, and caches the compact
  columns of a run in the Python worker that has read it;
* :mod:`~slc_ops.engines.spark.cluster` runs a function over all splits and adds up its results;
* :mod:`~slc_ops.engines.spark.answers` has the functions that run on a split;
* :mod:`~slc_ops.engines.spark.log` is a log with its rows on the cluster;
* :mod:`~slc_ops.engines.spark.parts` and :mod:`~slc_ops.engines.spark.extraction` let executors write the
  parts of a window;
* :mod:`~slc_ops.engines.spark.validation` has a window's statistics and quarantine, and finds equal keys:
  event ids, rows, and labels that changed since a window was last extracted;
* :mod:`~slc_ops.engines.spark.engine` implements the engine.

No other package imports this one: :func:`slc_ops.rows.engine.engine_of` finds it by its name. Only
functions import pyspark; ``pip install slc-ops[spark]`` installs it.
"""

from slc_ops.engines.spark.engine import SparkEngine


def open_engine() -> SparkEngine:
    """Return the engine of this installation's cluster (``SLC_OPS_SPARK_MASTER``)."""
    return SparkEngine()
