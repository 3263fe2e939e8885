"""Names that end up in paths, DAG ids, model names and URLs; apart, because serving hosts need only these."""

import re

from slc_ops.base.errors import RegistryError

RETIRED_TAG = "champion_retired"
"""A tag of the registered model: the change of the ledger that retired its champion. An alias that is merely
missing (a hand, another database) tells a serving host nothing; this tag says that it should let go."""


def valid_name(name: str) -> str:
    """A deployment's name ends up in paths, DAG ids and model names, so it is plain.

    >>> valid_name("demo-2")
    'demo-2'
    """
    if not re.fullmatch(r"[a-z0-9](?:[a-z0-9_-]{0,61}[a-z0-9])?", name):
        raise ValueError(
            f"{name!r} is not a deployment name: 1 to 63 of a-z, 0-9, '-' and '_', "
            "beginning and ending with a letter or digit"
        )
    return name


def model_name(deployment: str, schema: str | None = None) -> str:
    """The registered model of a deployment, in a ``catalog.schema`` where names have three levels.

    >>> model_name("demo"), model_name("demo", "main.slc")
    ('slc-demo', 'main.slc.slc-demo')
    """
    try:
        name = f"slc-{valid_name(deployment)}"
    except ValueError as error:
        raise RegistryError(str(error)) from None
    return name if schema is None else f"{schema}.{name}"


def alias_name(alias: str) -> str:
    """An alias that can stand in a URL as it is.

    >>> alias_name("champion")
    'champion'
    """
    if not re.fullmatch(r"[a-z][a-z0-9_-]{0,62}", alias):
        raise RegistryError(f"{alias!r} is not an alias: expected letters a-z, digits, '-' and '_'")
    return alias
