"""The error tree. Every message states the finding, the expectation and the remedy.

Every subclass of :class:`SlcError` is written for users: the command line prints it as one line and exits
with 2. An Airflow task retries only those that may be temporary (sources, storage, registry).
"""

from pathlib import Path
from typing import Any


class SlcError(Exception):
    """Base class of all errors that slc_ops raises on purpose."""


class InputError(SlcError):
    """Rows, columns or files that break the log's contract."""


class ColumnError(InputError):
    """A column that cannot be used: ``column`` is its name in the contract, ``what`` the reason.

    >>> error = ColumnError("label", "it has only nulls")
    >>> error.where, error.called = "may.csv", "correct"
    >>> print(error)
    column 'correct' (label) of may.csv: it has only nulls
    """

    where = called = ""
    """The file and the user's name of the column; the reader of the file sets them."""

    def __init__(self, column: str, what: str) -> None:
        super().__init__(column, what)
        self.column, self.what = column, what

    def __str__(self) -> str:
        meaning = f" ({self.column})" if self.called and self.called != self.column else ""
        of = f" of {self.where}" if self.where else ""
        return f"column {(self.called or self.column)!r}{meaning}{of}: {self.what}"


class BadRowsError(ColumnError):
    """Rows of one column that break one rule: their number, and the first of them."""

    def __init__(self, column: str, rule: str, count: int, first: int, value: object = None) -> None:
        self.rule, self.count, self.first, self.value = rule, count, first, value
        rows = "1 row" if count == 1 else f"{count} rows"
        found = "" if value is None else f" with {value}"
        at = f"the first is row {first} (counting from 0){found}"
        super().__init__(column, f"{rows} where it {rule}, {at}; correct or remove them")


def refuse_rows(bad: Any, column: str, rule: str, first_row: int, values: Any = None) -> None:
    """Raise :class:`BadRowsError` for the rows where ``bad`` is true; quote the first of ``values``."""
    first = int(bad.argmax())
    value = None if values is None else values[first].item()
    raise BadRowsError(column, rule, int(bad.sum()), first_row + first, value)


class BackboneMismatch(InputError):
    """The rows have another backbone than the correction, and the deployment refuses such rows."""


class DamagedFile(InputError, ValueError):
    """A file that slc_ops wrote, whose content has changed since."""

    def __init__(self, path: Path, what: str) -> None:
        found = " ".join(what.split())
        super().__init__(f"{path} is damaged ({found}); {_remedy(path)}")


class MissingFile(InputError, FileNotFoundError):
    """A file that slc_ops wrote, and that no longer exists."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} is missing; {_remedy(path)}")


def _remedy(path: Path) -> str:
    return f"restore it, or remove {path.parent} and run again what wrote it (slc-ops refresh for a window)"


class SourceUnavailable(SlcError):
    """A source did not answer or closed the connection; a retry may succeed."""


class ClusterUnavailable(SourceUnavailable):
    """A cluster cannot be reached, or has lost all its workers; a retry may succeed."""


class SettingsError(SlcError):
    """A deployments file, an option or a path that cannot be used."""


class StorageError(SlcError, OSError):
    """The disk is full or read-only, or a file may not be written; free space or grant the right to write."""


class ValidationStopped(SlcError):
    """The validation suite found a critical failure; the refresh stops, the champion stays.

    The message quotes rows by their event ids; ``kept``, the text to store, does not.
    """

    def __init__(self, message: str, kept: str = "") -> None:
        super().__init__(message)
        self.kept = kept or message


class FitError(SlcError):
    """A method cannot be fitted to these rows."""


class OneClassError(FitError):
    """All labels (with positive weight) are equal: no link can be estimated."""


class NotConvergedError(FitError):
    """An iteration did not reach its tolerance."""


class ParameterSetError(SlcError):
    """A parameter set is incomplete, altered, or of an unknown schema version."""


class SelfTestFailed(SlcError):
    """A result contradicts the mathematics (for example: Platt scaling changed the AUC)."""


class RegistryError(SlcError):
    """MLflow or the ledger refused an operation, or they disagree."""


class PromotionRefused(RegistryError):
    """The promotion rules forbid this change."""


class PromotionConflict(PromotionRefused):
    """Another process changed the champion first."""
