"""Tables in files: Parquet, Feather (Arrow IPC), CSV and JSON lines, by the file's suffix.

CSV and JSON lines may be compressed with gzip or Zstandard (``.csv.gz``, ``.jsonl.zst``).

This module handles formats only. Callers interpret the columns and turn the errors of Arrow and the operating
system, which pass through unchanged, into messages.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

COMPRESSED = (".gz", ".zst")
FEATHER = (".feather", ".arrow")
JSON_LINES = (".jsonl", ".ndjson")
SUFFIXES = (
    ".parquet", ".feather", ".arrow",
    *(text + more for text in (".csv", *JSON_LINES) for more in ("", *COMPRESSED)),
)  # fmt: skip
BATCH_ROWS = 1 << 16


def suffix_of(path: Path) -> str:
    """Return a file's suffix; both suffixes of a compressed file.

    >>> suffix_of(Path("log.may.csv.gz")), suffix_of(Path("may.parquet"))
    ('.csv.gz', '.parquet')
    """
    return "".join(path.suffixes[-2:]) if path.suffix in COMPRESSED else path.suffix


class TabularFile:
    """A file of rows: its schema, and its rows in batches; the footer of a Parquet file is read once.

    ``types`` fixes the type of CSV and JSON columns: an id 007 is not 7. With ``strict`` only an empty CSV
    field is missing, because "NA" may be an item. Without ``check_utf8`` a CSV may contain text that is not
    UTF-8; the caller validates it row by row.
    """

    def __init__(
        self,
        path: Path,
        *,
        types: Mapping[str, pa.DataType] | None = None,
        strict: bool = False,
        check_utf8: bool = True,
    ) -> None:
        self.path = path
        self._types = types
        self._strict = strict
        self._check_utf8 = check_utf8
        self._footer = None
        if path.suffix == ".parquet":
            import pyarrow.parquet as pq

            self._footer = pq.read_metadata(path)
            self.schema: pa.Schema = self._footer.schema.to_arrow_schema()
        elif path.suffix in FEATHER:
            with pa.ipc.open_file(path) as reader:
                self.schema = reader.schema
        elif self._is_json:
            self.schema = self.table().schema
        else:
            with self._csv() as reader:
                self.schema = reader.schema

    def batches(self, batch_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """Yield all rows, in the file's order."""
        if self._footer is not None:
            import pyarrow.parquet as pq

            with pq.ParquetFile(self.path, metadata=self._footer) as file:
                yield from file.iter_batches(batch_rows)
        elif self.path.suffix in FEATHER:
            with pa.ipc.open_file(self.path) as reader:
                yield from (reader.get_batch(k) for k in range(reader.num_record_batches))
        elif self._is_json:
            yield from self.table().to_batches(max_chunksize=batch_rows)
        else:
            with self._csv() as reader:
                yield from reader

    def table(self) -> pa.Table:
        """Return all rows at once; the types of CSV columns are then inferred from the whole file."""
        if self._is_json:
            import pyarrow.json as pajson

            schema = None if self._types is None else pa.schema(self._types)
            return pajson.read_json(str(self.path), parse_options=pajson.ParseOptions(explicit_schema=schema))
        if self._footer is None and self.path.suffix not in FEATHER:
            import pyarrow.csv as pacsv

            return pacsv.read_csv(str(self.path), **self._csv_options())
        return pa.Table.from_batches(self.batches(), self.schema)

    @property
    def _is_json(self) -> bool:
        return suffix_of(self.path).startswith(JSON_LINES)

    def _csv(self) -> Any:
        import pyarrow.csv as pacsv

        return pacsv.open_csv(str(self.path), **self._csv_options())

    def _csv_options(self) -> dict[str, Any]:
        import pyarrow.csv as pacsv

        missing = {"null_values": [""], "strings_can_be_null": True} if self._strict else {}
        return {
            "parse_options": pacsv.ParseOptions(newlines_in_values=self._strict),
            "convert_options": pacsv.ConvertOptions(
                column_types=self._types, check_utf8=self._check_utf8, **missing
            ),
        }
