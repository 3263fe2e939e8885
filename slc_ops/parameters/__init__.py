"""The parameter set: link, effects, storage, golden vectors, and correction of files."""

PARAMS, GOLDEN = "params.json", "golden.json"
"""The files of a parameter set, apart from one file per effect."""
IN_MODEL = "artifacts/parameters"
"""Path of the parameter set inside MLflow's model directory."""


def effect_file(name: str) -> str:
    """Return the file name of an effect.

    >>> effect_file("item")
    'item.parquet'
    """
    return f"{name}.parquet"
