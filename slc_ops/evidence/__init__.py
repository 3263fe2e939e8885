"""Evaluate corrections: metrics, paired intervals, backtests, detectability and the decision."""
