"""The parameter set: model, storage, golden vectors, applying it to files."""

PARAMS, ITEMS, GOLDEN = "params.json", "items.parquet", "golden.json"
"""The files of a parameter set."""
