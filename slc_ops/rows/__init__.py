"""Rows as columns, and reductions over them: by threads in this process, or on a Spark cluster."""
