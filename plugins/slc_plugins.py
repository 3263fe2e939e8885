"""The plugins for an Airflow that uses this folder without installing the package (PYTHONPATH alone).

An installed slc-ops brings its plugins by entry points; then this file adds nothing, so none is loaded twice.
"""

from importlib.metadata import entry_points

if not any(entry.value.startswith("slc_ops.") for entry in entry_points(group="airflow.plugins")):
    from slc_ops.airflow.plugins import SlcPage, SlcPool

    __all__ = ["SlcPage", "SlcPool"]
