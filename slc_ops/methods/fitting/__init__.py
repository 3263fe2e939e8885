"""Fitting: rows in, coefficients and offsets out; what the methods share."""
