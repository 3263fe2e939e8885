"""slc_ops: per-item logit correction of frozen models, as a weekly operation.

Packages depend in one direction (docs/architecture.md). ``refresh`` holds the weekly job as plain functions;
Airflow DAGs and the ``slc-ops`` command only call them.
"""

__version__ = "0.1.0"
