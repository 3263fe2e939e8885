"""The schema revision that this code needs and that of a database.

The heads of the migrations are parsed from the migration files: imports of Airflow and MLflow would double
the start time of every service.
"""

import importlib.util
import re
from dataclasses import dataclass
from pathlib import Path

from slc_ops.base.errors import SettingsError


@dataclass(frozen=True)
class Schema:
    """The owner of the tables, the directory of the migrations, and the table with the revision."""

    owner: str
    package: str
    versions: str
    table: str

    @property
    def head(self) -> str:
        """The revision that this code requires."""
        spec = importlib.util.find_spec(self.package)
        if spec is None or not spec.submodule_search_locations:
            raise SettingsError(f"{self.package} is not installed here; install slc-ops[production]")
        directory = Path(spec.submodule_search_locations[0]) / self.versions
        revisions: set[str] = set()
        replaced: set[str] = set()
        for path in directory.glob("*.py"):
            text = path.read_text(encoding="utf-8")
            revisions.update(re.findall(r'^revision(?:: str)?\s*=\s*["\'](\w+)["\']', text, re.MULTILINE))
            for line in re.findall(r"^down_revision[^=\n]*=(.*)$", text, re.MULTILINE):
                replaced.update(re.findall(r'["\'](\w+)["\']', line))
        heads = revisions - replaced
        if len(heads) != 1:
            raise SettingsError(
                f"{directory} holds {len(heads)} newest migrations, expected one: {sorted(heads)}"
            )
        return heads.pop()


AIRFLOW = Schema("Airflow", "airflow", "migrations/versions", "alembic_version")
LOGINS = Schema("Airflow's logins", "airflow", "providers/fab/migrations/versions", "alembic_version_fab")
MLFLOW = Schema("MLflow", "mlflow", "store/db_migrations/versions", "alembic_version")
MLFLOW_LOGINS = Schema(
    "MLflow's logins", "mlflow", "server/auth/db/migrations/versions", "alembic_version_auth"
)
LEDGER = Schema("the ledger", "slc_ops", "registry/migrations/versions", "slc_ledger_schema")


def compare(schema: Schema, found: str | None) -> None:
    """Raise `SettingsError` if the database is not at this code's revision, with the remedy."""
    if found == schema.head:
        return
    if found is None:
        raise SettingsError(f"the database of {schema.owner} is empty; run init first")
    raise SettingsError(
        f"the schema of {schema.owner} is at revision {found}, this version needs {schema.head}; "
        "after an upgrade run init, after a downgrade restore the backup made before it"
    )
