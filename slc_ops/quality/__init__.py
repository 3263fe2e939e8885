"""Validation of a window by the Great Expectations suite: accept, accept without bad rows, or stop."""
