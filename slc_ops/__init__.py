"""slc_ops: per-item logit correction of frozen models, as a weekly operation.

The street has one direction: ``logs`` → ``quality`` → ``correction`` → ``evidence`` → ``registry`` →
``serving``. ``pipeline`` walks it as plain functions; Airflow DAGs and the ``slc-ops`` command only call.
"""

__version__ = "0.1.0"
