"""Our own Parquet files: every page carries a checksum, and every reader verifies it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from slc_ops.base.errors import DamagedFile, MissingFile

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq


@contextmanager
def open_parquet(path: Path) -> "Iterator[pq.ParquetFile]":
    """A file that we wrote; one that is gone, cut off or altered is an error that says what to do."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            yield file
    except FileNotFoundError:
        raise MissingFile(path) from None
    except (pa.ArrowException, OSError) as error:
        raise DamagedFile(path, str(error)) from None


def read_parquet(path: Path, columns: Sequence[str] | None = None) -> "pa.Table":
    """All rows of a file that we wrote."""
    with open_parquet(path) as file:
        return file.read(columns=None if columns is None else list(columns))


def write_parquet(table: "pa.Table", path: Path) -> None:
    """Write a table; call it on a temporary name."""
    import pyarrow.parquet as pq

    pq.write_table(table, path, compression="zstd", write_page_checksum=True)
