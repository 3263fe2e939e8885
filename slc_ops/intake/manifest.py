"""The manifest of an extracted window, stored beside its rows."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slc_ops.base.errors import DamagedFile, InputError, MissingFile
from slc_ops.base.files import read_json, understanding, write_json
from slc_ops.base.json_form import read_as, to_json
from slc_ops.base.parquet import digest_log
from slc_ops.base.window import Window

FILE = "manifest.json"
LOG = "log.parquet"
SCHEMA_VERSION = 1


@dataclass(frozen=True)
class WindowManifest:
    """One immutable window of a deployment's log.

    ``digest`` identifies the content (not the bytes); ``source`` describes the origin, without secrets;
    ``fingerprint`` is the source's state at extraction, if it can be computed without reading the rows;
    ``settings_digest`` identifies the request (the window's bounds and the source's settings);
    ``file_digest`` is the digest of the log's bytes, which is verified before rows are used. The log is one
    file, or a folder of parts that a cluster wrote (:mod:`slc_ops.base.parquet`).
    """

    rows: int
    digest: str
    path: Path
    window: Window
    schema: dict[str, str]
    source: dict[str, Any]
    file_digest: str
    settings_digest: str = ""
    fingerprint: str | None = None
    notes: dict[str, Any] = field(default_factory=dict)

    @property
    def directory(self) -> Path:
        """Return the window's directory, which also holds all results about the window."""
        return self.path.parent

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form without the path: a window may be moved."""
        return {"schema_version": SCHEMA_VERSION, **to_json(self, exclude={"path"})}

    def write(self) -> None:
        """Write the manifest beside the log."""
        write_json(self.directory / FILE, self.as_dict())

    def verify(self, digest: Callable[[Path], str] = digest_log) -> None:
        """Raise :class:`~slc_ops.base.errors.DamagedFile` when the log differs from the extracted one.

        ``digest`` computes the digest of the bytes, on a cluster if the rows are there.
        """
        self.check(self.path, digest, self.file_digest, "its rows are not those that were extracted")

    def check(self, path: Path, digest: Callable[[Path], str], expected: str, what: str) -> None:
        """Raise :class:`~slc_ops.base.errors.DamagedFile` when a file of the window has another digest."""
        if not path.exists():
            raise MissingFile(path)
        if digest(path) != expected and WindowManifest.read(self.directory).digest == self.digest:
            # otherwise late rows have replaced the window, which its user detects
            raise DamagedFile(path, what)

    @classmethod
    def read(cls, directory: Path) -> "WindowManifest":
        """Read the manifest of a finished window; raise :class:`InputError` if there is none."""
        path = directory / FILE
        try:
            value = read_json(path)
        except FileNotFoundError:
            raise InputError(
                f"{directory} holds no extracted window (no {FILE}); run the extraction first"
            ) from None
        with understanding(path):
            version = value.get("schema_version")
        if version != SCHEMA_VERSION:
            raise InputError(
                f"{path} has schema version {version}, expected {SCHEMA_VERSION}; "
                f"remove {directory} and extract again"
            )
        with understanding(path):
            form = {name: each for name, each in value.items() if name != "schema_version"}
            return read_as(cls, form | {"path": directory / LOG})
