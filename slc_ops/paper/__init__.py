"""The paper's analyses and public data sets; nothing here takes part in a refresh."""
