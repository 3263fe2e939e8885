"""Logs with deployment and window, step records, notifications and Prometheus metrics for operators."""
