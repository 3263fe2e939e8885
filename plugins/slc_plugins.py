"""The plugin for an Airflow that uses this folder without installing the package (PYTHONPATH alone).

An installed slc-ops brings its plugin by an entry point; then this file adds nothing, to load none twice.
"""

from importlib.metadata import entry_points

if not any(entry.value.startswith("slc_ops.") for entry in entry_points(group="airflow.plugins")):
    from slc_ops.airflow.plugins import SlcPage

    __all__ = ["SlcPage"]
