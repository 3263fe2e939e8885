"""Parquet files that slc_ops writes: every page has a checksum, and every reader verifies it.

A log is one file, or a folder of parts (``part-00000.parquet`` and so on) that several processes wrote.
Functions of this module accept both.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from slc_ops.base.digests import digest_file, digest_json
from slc_ops.base.errors import DamagedFile, MissingFile

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

HARDLY_REPEATS = frozenset({"event_id", "event_time", "logit", "probability"})
DICTIONARY_BYTES = 1 << 23
"""Size limit of a row group's dictionary of ids. With Parquet's default of one megabyte, larger columns are
written and read as plain text, which takes three times as long for the users of five million rows."""


SPAN = 1 << 16
"""Rows that are read, hashed and observed together; they fit into a processor's cache."""


def part_name(number: int) -> str:
    """Return the file name of a part; sorted names give the order of the rows.

    >>> part_name(3)
    'part-00003.parquet'
    """
    return f"part-{number:05d}.parquet"


def parts_of(path: Path) -> list[Path]:
    """Return the files of a log in row order: the file itself, or the parts of a folder."""
    if not path.is_dir():
        return [path]
    found = sorted(path.glob("part-*.parquet"))
    if not found:
        raise MissingFile(path / part_name(0))
    return found


def digest_log(path: Path) -> str:
    """Return the SHA-256 of a log's bytes; of a folder, of its parts' names and digests."""
    if not path.is_dir():
        return digest_file(path)
    return digest_parts({part.name: digest_file(part) for part in parts_of(path)})


def digest_parts(digests: dict[str, str]) -> str:
    """Return the digest of a folder from the digests of its parts, by name."""
    return digest_json(sorted(digests.items()))


def stored_schema(path: Path) -> "pa.Schema":
    """Return the columns of a log, which all parts share."""
    with _opened(parts_of(path)[0]) as file:
        return file.schema_arrow


def stored_batches(path: Path, columns: Sequence[str] | None = None) -> "Iterator[pa.RecordBatch]":
    """Yield the rows of a log, part by part; raise :class:`MissingFile` or :class:`DamagedFile`."""
    for part in parts_of(path):
        with _opened(part) as file:
            yield from file.iter_batches(batch_size=SPAN, columns=columns)


def read_parquet(path: Path, columns: Sequence[str] | None = None) -> "pa.Table":
    """Return all rows of a log."""
    import pyarrow as pa

    tables = []
    for part in parts_of(path):
        with _opened(part) as file:
            tables.append(file.read(columns=None if columns is None else list(columns)))
    return pa.concat_tables(tables)


@contextmanager
def _opened(part: Path) -> "Iterator[pq.ParquetFile]":
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(part, page_checksum_verification=True) as file:
            yield file
    except FileNotFoundError:
        raise MissingFile(part) from None
    except (pa.ArrowException, OSError) as error:
        raise DamagedFile(part, str(error)) from None


def log_writer(path: Path, schema: "pa.Schema") -> "pq.ParquetWriter":
    """Open the writer of a log file, under a temporary name.

    Columns with few repeated values are not dictionary-encoded; only the event time has statistics.
    """
    import pyarrow.parquet as pq

    return pq.ParquetWriter(
        path,
        schema,
        compression="zstd",
        compression_level=1,
        use_dictionary=[name for name in schema.names if name not in HARDLY_REPEATS],
        dictionary_pagesize_limit=DICTIONARY_BYTES,
        write_statistics=["event_time"],
        write_page_checksum=True,
    )


def write_parquet(table: "pa.Table", path: Path) -> None:
    """Write a table; ``path`` must be a temporary name."""
    import pyarrow.parquet as pq

    pq.write_table(table, path, compression="zstd", write_page_checksum=True)
