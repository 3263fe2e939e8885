"""What the corrections are worth: metrics, paired uncertainty, backtests, detectability, the decision."""
