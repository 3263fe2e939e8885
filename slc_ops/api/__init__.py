"""The Python API for data scientists: an estimator and a few functions over data frames.

``slc_ops`` exports these names and imports this package lazily, on first use.
"""
