"""Lists of users in files: one id per line, or a column of a table."""

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from slc_ops.base.errors import InputError
from slc_ops.base.tabular import SUFFIXES, TabularFile


def read_users(path: Path, column: str = "user_id") -> list[str]:
    """The distinct ids as text, in order.

    Raises :class:`~slc_ops.base.errors.InputError` for a file that cannot be read, or that holds no id.
    """
    try:
        found = _column(path, column) if path.suffix in SUFFIXES else _lines(path)
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8 text; expected one user id per line") from None
    except (pa.ArrowException, OSError) as error:
        first = str(error).splitlines()[0]
        raise InputError(f"{path} cannot be read ({first}); expected a table with user ids") from None
    users = list(dict.fromkeys(found))
    if not users:
        raise InputError(f"{path} holds no user id; expected one per line, or a column of them")
    return users


def _lines(path: Path) -> list[str]:
    """Lines without their ends; spaces belong to an id, empty lines do not count."""
    return [line for line in path.read_text(encoding="utf-8").splitlines() if line]


def _column(path: Path, name: str) -> list[str]:
    file = TabularFile(path, text=[name], strict=True)
    if name not in file.schema.names:
        raise InputError(
            f"{path} has no column {name!r}; it has {', '.join(file.schema.names)}: name one with --column"
        )
    return [
        user
        for batch in file.batches()
        for user in pc.cast(batch.column(name), pa.string()).to_pylist()
        if user is not None
    ]
