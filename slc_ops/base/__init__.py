"""Errors, atomic files, names, windows and formatting: the modules that every other package imports."""
