"""What a data scientist imports: an estimator, and a few functions over data frames.

The names are those of ``slc_ops`` itself, which imports this package only when one of them is used.
"""
