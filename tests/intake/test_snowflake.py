"""Snowflake's protocol by fakesnow on loopback, read through the real driver."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slc_ops.base.errors import InputError
from slc_ops.intake.extract import extract
from slc_ops.intake.manifest import WindowManifest
from slc_ops.settings.deployments import Deployment
from slc_ops.settings.sources import LakeSource, SqlSource
from tests.intake.conftest import WEEK
from tests.intake.emulators import answering, environment_with, free_port

pytestmark = pytest.mark.services
QUERY = "SELECT * FROM answers WHERE event_time >= :window_start AND event_time < :window_end"
COLUMNS = ["event_id", "event_time", "user_id", "item_id", "label", "logit"]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory, rows: pa.Table, later_rows: pa.Table) -> Iterator[str]:
    """Two weeks in a table with unquoted names."""
    from adbc_driver_snowflake import dbapi

    directory, port = tmp_path_factory.mktemp("snowflake"), free_port()
    python = environment_with(directory / "venv", "fakesnow[server]==0.12.1", "snowflake-connector-python<5")
    command = [str(python), "-m", "fakesnow", "-s", "--host", "127.0.0.1", "-p", str(port)]
    with answering(command, port, directory / "log"):
        place = f"ann:secret-1@127.0.0.1:{port}/logs/public?account=fake&protocol=http"
        both = pa.concat_tables([rows, later_rows])
        with dbapi.connect(place, autocommit=True) as link, link.cursor() as cursor:
            for what in ("database if not exists logs", "schema if not exists logs.public"):
                cursor.execute(f"create {what}")
            cursor.execute(
                "create table logs.public.answers (event_id text, event_time timestamp_tz, user_id text, "
                "item_id text, label number(38, 0), logit double)"
            )
            for first in range(0, both.num_rows, 250):
                part = both.slice(first, 250).to_pylist()
                values = ", ".join(
                    f"('{row['event_id']}', '{row['event_time'].isoformat()}', '{row['user_id']}', "
                    f"'{row['item_id']}', {row['label']}, {row['logit']!r})"
                    for row in part
                )
                cursor.execute(f"insert into logs.public.answers values {values}")  # noqa: S608 - ours
        yield f"snowflake://{place}"


def pulled(home: Path, **settings: Any) -> WindowManifest:
    source = SqlSource.model_validate({"url_env": "LOGS", "query": QUERY, **settings})
    return extract(Deployment(source=source), WEEK, home / "windows", home=home, refresh=True)


def test_the_window_equals_that_of_a_file(
    tmp_path: Path, rows: pa.Table, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGS", address)
    (tmp_path / "lake").mkdir()
    pq.write_table(rows.select(COLUMNS), tmp_path / "lake" / "rows.parquet")
    file = extract(Deployment(source=LakeSource(path="lake")), WEEK, tmp_path / "of_file", home=tmp_path)
    found = pulled(tmp_path, batch_rows=100)
    assert found.schema == file.schema
    assert (found.rows, found.digest) == (file.rows, file.digest)
    assert "secret" not in str(found.source)


def test_a_missing_table_gives_a_one_line_error(
    tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGS", address)
    with pytest.raises(InputError, match=r"(?i)nothing") as refusal:
        pulled(tmp_path, query=QUERY.replace("answers", "nothing"))
    assert "\n" not in str(refusal.value)
    assert "secret-1" not in str(refusal.value)
