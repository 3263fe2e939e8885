"""Kernels, solvers, time bins, grids and the smoother: arrays in, arrays out."""
