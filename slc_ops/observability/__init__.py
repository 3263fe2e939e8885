"""What operators see: log lines that name deployment and window, step records, Prometheus metrics."""
