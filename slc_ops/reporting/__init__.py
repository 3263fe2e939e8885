"""The HTML report of a refresh and its figures."""

from slc_ops.reporting.report import write_report

__all__ = ["write_report"]
