"""Read some columns of a large CSV stream as text, in batches; errors name the file."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

import pyarrow as pa
from pyarrow import csv

from slc_ops.base.errors import InputError

BLOCK_BYTES = 8 << 20


def read_csv(stream: IO[bytes], path: Path, columns: Mapping[str, str | None]) -> Iterator[pa.RecordBatch]:
    """Yield batches with the columns ``wanted name → name in the file`` (None: the same), all as text.

    Types are not inferred: the first block of a column may differ from the rest of twelve million rows.
    """
    names = {wanted: found or wanted for wanted, found in columns.items()}
    try:
        reader = csv.open_csv(
            stream,
            read_options=csv.ReadOptions(block_size=BLOCK_BYTES, use_threads=False),
            convert_options=csv.ConvertOptions(
                include_columns=list(names.values()),
                column_types=dict.fromkeys(names.values(), pa.string()),
                strings_can_be_null=True,
                null_values=["", "NA"],
            ),
        )
        for batch in reader:
            yield pa.record_batch(list(batch.columns), names=list(names))
    except (pa.ArrowInvalid, pa.ArrowKeyError) as error:
        first = str(error).splitlines()[0]
        raise InputError(
            f"{path} cannot be read as CSV with the columns {', '.join(names)}: {first}"
        ) from None


def header(stream: IO[bytes], path: Path) -> list[str]:
    """Read the column names of a CSV stream, which advances."""
    import csv as plain

    line = stream.readline().decode("utf-8-sig", errors="replace").strip()
    if not line:
        raise InputError(f"{path} is empty; expected a header line and rows")
    return [name.strip() for name in next(plain.reader([line]))]
