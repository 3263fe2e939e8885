"""Pages and results that were published with a run, without what they quote of erased users."""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from slc_ops.registry.publication import Version

if TYPE_CHECKING:
    from mlflow import MlflowClient

TEXTS = (".json", ".html")


def redact_run(client: "MlflowClient", version: Version, redacted: Callable[[str, str], str]) -> list[str]:
    """Replace the run's texts that ``redacted`` (suffix and text in, text out) changes; answers which.

    The model's own files are left alone: they hold items and figures, and are known by their digests. A run
    that somebody deleted has nothing to redact.
    """
    from mlflow.exceptions import MlflowException

    changed: list[str] = []
    try:
        client.get_run(version.run_id)
    except MlflowException as error:
        if error.error_code == "RESOURCE_DOES_NOT_EXIST":
            return changed
        raise
    with tempfile.TemporaryDirectory(prefix="slc-erase-") as scratch:
        for name in _texts(client, version.run_id, ""):
            path = Path(client.download_artifacts(version.run_id, name, scratch))
            text = path.read_text(encoding="utf-8")
            if (said := redacted(path.suffix, text)) != text:
                path.write_text(said, encoding="utf-8")
                parent = str(PurePosixPath(name).parent)
                client.log_artifact(version.run_id, str(path), None if parent == "." else parent)
                changed.append(f"{version.run_id}/{name}")
    return changed


def _texts(client: "MlflowClient", run_id: str, directory: str) -> Iterator[str]:
    for entry in client.list_artifacts(run_id, directory or None):
        if entry.is_dir:
            if entry.path != "model":
                yield from _texts(client, run_id, entry.path)
        elif PurePosixPath(entry.path).suffix in TEXTS:
            yield entry.path
