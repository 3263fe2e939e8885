"""The parameter set: link and effects, storage, golden vectors, applying it to files."""

PARAMS, GOLDEN = "params.json", "golden.json"
"""The files of a parameter set beside those of its effects."""


def effect_file(name: str) -> str:
    """The file of an effect.

    >>> effect_file("item")
    'item.parquet'
    """
    return f"{name}.parquet"
