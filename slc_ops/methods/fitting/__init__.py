"""Fitting: the shared code of the methods, from rows to coefficients and offsets."""
