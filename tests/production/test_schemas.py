"""The newest migrations, read from the text of the files, equal those that Alembic finds."""

import importlib.util

import pytest
from alembic.script import ScriptDirectory

from slc_ops.base.errors import SettingsError
from slc_ops.production import schemas
from slc_ops.production.schemas import Schema, compare


@pytest.mark.slow
@pytest.mark.parametrize(
    "schema", [schemas.AIRFLOW, schemas.LOGINS, schemas.MLFLOW, schemas.MLFLOW_LOGINS, schemas.LEDGER],
    ids=lambda schema: schema.owner,
)  # fmt: skip
def test_the_head_equals_that_of_alembic(schema: Schema) -> None:
    spec = importlib.util.find_spec(schema.package)
    assert spec is not None
    assert spec.submodule_search_locations
    directory = f"{spec.submodule_search_locations[0]}/{schema.versions}"
    scripts = ScriptDirectory(directory.removesuffix("/versions"), version_locations=[directory])
    assert scripts.get_heads() == [schema.head]


def test_the_ledgers_code_and_its_migrations_agree() -> None:
    from slc_ops.registry.database import SCHEMA, SCHEMA_TABLE

    assert (schemas.LEDGER.head, schemas.LEDGER.table) == (SCHEMA, SCHEMA_TABLE)


def test_another_schema_is_refused_with_a_remedy() -> None:
    compare(schemas.LEDGER, schemas.LEDGER.head)
    with pytest.raises(SettingsError, match="empty; run init"):
        compare(schemas.LEDGER, None)
    with pytest.raises(SettingsError, match=r"revision 9999.*restore the backup"):
        compare(schemas.LEDGER, "9999")
