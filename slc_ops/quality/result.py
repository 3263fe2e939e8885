"""The verdict on a window, as a value and as a file."""

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from slc_ops.base.json_form import JsonForm
from slc_ops.base.parquet import digest_log
from slc_ops.intake.manifest import WindowManifest

Severity = Literal["critical", "warning"]
RESULT = "validation.json"
PAGE = "validation.html"
MAX_EXAMPLE_LENGTH = 40
"""Maximum characters of a value in a line."""
PLACES = ("clean_path", "docs_path", "result_path")
Status = Literal["passed", "warned", "stopped"]


@dataclass(frozen=True)
class Finding:
    """One expectation that failed.

    ``observed`` and ``expected`` describe the statistic; ``count`` of ``rows`` rows fail if the expectation
    is about rows; ``examples`` are at most ten of them.
    """

    code: str
    severity: Severity
    sentence: str
    expectation: str
    observed: Any
    expected: str
    count: int | None = None
    rows: int | None = None
    examples: list[dict[str, Any]] = field(default_factory=list)

    def line(self) -> str:
        """Return the finding in one line: remedy, observation, one example; the page has all examples."""
        what = f"{self.code}: {self.sentence}: "
        if self.count is not None and self.rows:
            what += f"{self.count} of {self.rows} rows ({self.count / self.rows:.2%}) fail, {self.expected}"
        else:
            what += f"found {self.observed}, {self.expected}"
        if self.examples:
            shown = ", ".join(
                f"{name}={str(value)[:MAX_EXAMPLE_LENGTH]}" for name, value in self.examples[0].items()
            )
            what += f"; for example {{{shown}}}"
        return what


@dataclass(frozen=True)
class ValidationResult(JsonForm):
    """The suite's verdict on a window. ``clean_path`` contains the usable rows.

    ``clean_digest`` is the digest of its bytes; empty if it is the extracted log, whose digest is in the
    manifest.
    """

    status: Status
    rows: int
    quarantined: int
    findings: list[Finding]
    clean_path: Path
    docs_path: Path
    result_path: Path
    clean_digest: str = ""
    seen_digest: str = ""
    """A digest of the quarantined event ids of earlier windows; empty without any."""

    def verify(self, manifest: WindowManifest, digest: Callable[[Path], str] = digest_log) -> None:
        """Raise :class:`~slc_ops.base.errors.DamagedFile` if the clean rows are not those written."""
        if self.clean_digest:
            what = "its rows are not those that validation kept"
            manifest.check(self.clean_path, digest, self.clean_digest, what)

    def file_form(self) -> dict[str, Any]:
        """Return the JSON form with file names only: a window may be moved."""
        value = self.as_dict()
        return value | {name: Path(value[name]).name for name in PLACES}

    @classmethod
    def from_file(cls, directory: Path, value: dict[str, Any]) -> "ValidationResult":
        """Read the result of :meth:`file_form` from the window's directory."""
        places = {name: directory / value[name] for name in PLACES}
        return cls.from_dict({each.name: value[each.name] for each in fields(cls)} | places)
