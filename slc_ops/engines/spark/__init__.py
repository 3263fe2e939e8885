"""The engine of deployments with ``engine: spark``: the same kernels on a Spark cluster.

* :mod:`~slc_ops.engines.spark.session` reaches the cluster, or says within seconds why it cannot;
* :mod:`~slc_ops.engines.spark.splits` cuts Parquet files into runs of row groups, and keeps the compact
  columns of a run with the Python worker that has read it;
* :mod:`~slc_ops.engines.spark.cluster` runs a function over all splits and adds up what it gives;
* :mod:`~slc_ops.engines.spark.answers` has what is asked of a split;
* :mod:`~slc_ops.engines.spark.log` is a log whose rows lie there;
* :mod:`~slc_ops.engines.spark.gathering` shows rows to an observer where they lie, and brings
  equal keys together;
* :mod:`~slc_ops.engines.spark.parts` and :mod:`~slc_ops.engines.spark.extraction` let executors write the
  parts of a window;
* :mod:`~slc_ops.engines.spark.validation` has a window's statistics and quarantine;
* :mod:`~slc_ops.engines.spark.relabelled` counts labels that changed since a window was last extracted;
* :mod:`~slc_ops.engines.spark.engine` opens it.

Nothing outside imports this package: :func:`slc_ops.rows.engine.engine_of` finds it by its name. Only the
session imports pyspark; ``pip install slc-ops[spark]`` brings it.
"""

from slc_ops.engines.spark.engine import SparkEngine


def open_engine() -> SparkEngine:
    """The engine of this installation's cluster (``SLC_OPS_SPARK_MASTER``)."""
    return SparkEngine()
