"""What an extracted window is: the small record that lies beside its rows."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slc_ops.base.errors import InputError
from slc_ops.base.files import read_json, write_json
from slc_ops.base.window import Window

if TYPE_CHECKING:
    import pyarrow.parquet as pq

FILE = "manifest.json"
LOG = "log.parquet"
SCHEMA_VERSION = 1


@dataclass(frozen=True)
class WindowManifest:
    """One immutable window of a deployment's log.

    ``digest`` names the content (not the bytes); ``source`` says where the rows came from, without secrets;
    ``fingerprint`` is what the source looked like then, where it can say so without being read;
    ``settings_digest`` names the question that was asked (the window's bounds and the source's settings).
    """

    rows: int
    digest: str
    path: Path
    window: Window
    schema: dict[str, str]
    source: dict[str, Any]
    settings_digest: str = ""
    fingerprint: str | None = None
    notes: dict[str, Any] = field(default_factory=dict)

    @property
    def directory(self) -> Path:
        """The window's directory; everything worked out about the window lies in it."""
        return self.path.parent

    def as_dict(self) -> dict[str, Any]:
        """The JSON form, without the path: a window may be moved."""
        return {
            "schema_version": SCHEMA_VERSION,
            "rows": self.rows,
            "digest": self.digest,
            "window": self.window.as_dict(),
            "schema": self.schema,
            "source": self.source,
            "settings_digest": self.settings_digest,
            "fingerprint": self.fingerprint,
            "notes": self.notes,
        }

    def write(self) -> None:
        """Put the manifest beside the log."""
        write_json(self.directory / FILE, self.as_dict())

    @classmethod
    def read(cls, directory: Path) -> "WindowManifest":
        """Read the manifest of a finished window."""
        try:
            value = read_json(directory / FILE)
        except FileNotFoundError:
            raise InputError(
                f"{directory} holds no extracted window (no {FILE}); run the extraction first"
            ) from None
        except (OSError, ValueError) as error:
            raise InputError(
                f"{directory / FILE} cannot be read: {error}; remove {directory} and extract again"
            ) from None
        if value.get("schema_version") != SCHEMA_VERSION:
            raise InputError(
                f"{directory / FILE} has schema version {value.get('schema_version')}, "
                f"expected {SCHEMA_VERSION}; remove {directory} and extract again"
            )
        try:
            return cls._from_dict(directory, value)
        except (KeyError, TypeError) as error:
            raise InputError(
                f"{directory / FILE} lacks {error}; remove {directory} and extract again"
            ) from None

    @classmethod
    def _from_dict(cls, directory: Path, value: dict[str, Any]) -> "WindowManifest":
        return cls(
            rows=value["rows"],
            digest=value["digest"],
            path=directory / LOG,
            window=Window.from_dict(value["window"]),
            schema=value["schema"],
            source=value["source"],
            settings_digest=value["settings_digest"],
            fingerprint=value["fingerprint"],
            notes=value["notes"],
        )


@contextmanager
def stored(path: Path) -> "Iterator[pq.ParquetFile]":
    """A Parquet file in a window's directory, its pages verified as they are read.

    A file that is missing or damaged is an :class:`~slc_ops.base.errors.InputError` that says what to do.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            yield file
    except FileNotFoundError:
        raise InputError(f"{path} is missing; {again(path.parent)}") from None
    except (pa.ArrowException, OSError) as error:
        text = " ".join(str(error).split())
        raise InputError(f"{path} is damaged: {text}; {again(path.parent)}") from None


def again(directory: Path) -> str:
    """What to do about a window that cannot be used any more."""
    return f"remove {directory} and extract the window again (slc-ops refresh does)"
