"""The same kernels on a Spark cluster.

* :mod:`~slc_ops.rows.spark.session` reaches the cluster, or says within seconds why it cannot;
* :mod:`~slc_ops.rows.spark.splits` cuts Parquet files into runs of row groups, and keeps the compact
  columns of a run with the Python worker that has read it;
* :mod:`~slc_ops.rows.spark.cluster` runs a function over all splits and adds up what it gives;
* :mod:`~slc_ops.rows.spark.answers` has what is asked of a split;
* :mod:`~slc_ops.rows.spark.log` is a log whose rows lie there;
* :mod:`~slc_ops.rows.spark.gathering` shows rows to an observer where they lie, brings equal keys together;
* :mod:`~slc_ops.rows.spark.extraction` lets executors write the parts of a window;
* :mod:`~slc_ops.rows.spark.relabelled` counts labels that changed since a window was last extracted;
* :mod:`~slc_ops.rows.spark.engine` opens it.

Only the engine imports pyspark; ``pip install slc-ops[spark]`` brings it.
"""
