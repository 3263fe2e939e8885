"""Validated names for paths, DAG ids, model names and URLs, in a light module for serving hosts."""

import re

from slc_ops.base.errors import RegistryError

RETIRED_TAG = "champion_retired"
"""A tag of the registered model: the ledger change that retired its champion. A serving host drops the
correction only with this tag, not when the alias is merely missing (removed by hand, another database)."""


def valid_name(name: str) -> str:
    """Return a deployment's name, or raise ``ValueError``: paths, DAG ids and model names contain it.

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
    """Return the registered model's name; ``schema`` is the ``catalog.schema`` of three-level names.

    >>> model_name("demo"), model_name("demo", "main.slc")
    ('slc-demo', 'main.slc.slc-demo')
    """
    try:
        name = f"slc-{valid_name(deployment)}"
    except ValueError as error:
        raise RegistryError(str(error)) from None
    return name if schema is None else f"{schema}.{name}"


def alias_name(alias: str) -> str:
    """Return an alias that needs no escaping in a URL, or raise :class:`RegistryError`.

    >>> alias_name("champion")
    'champion'
    """
    if not re.fullmatch(r"[a-z][a-z0-9_-]{0,62}", alias):
        raise RegistryError(f"{alias!r} is not an alias: expected letters a-z, digits, '-' and '_'")
    return alias
