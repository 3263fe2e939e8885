"""Parameter sets on the serving host's disk: the last one serves again when the registry is unreachable."""

import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from slc_ops.base.errors import RegistryError, SlcError
from slc_ops.base.files import read_json, replacing_directory, write_json
from slc_ops.serving.pointer import Named, Pointer, Retired, named_from_dict
from slc_ops.serving.sources import Source

_KEEP = 3
_log = logging.getLogger(__name__)


def default_cache() -> Path:
    """Return ``SLC_OPS_HOME/serving``, or a directory in the user's cache."""
    from slc_ops.settings.environment import PlaceVariables

    found = PlaceVariables.read()
    if "home" in found.model_fields_set:  # the default home is for installations, not for serving hosts
        return found.home.absolute() / "serving"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "slc-ops" / "serving"


class Cache:
    """One directory per version, and one small file per alias with the version that served last.

    Each registry has its own cache: staging must not serve version 1 of production.
    """

    def __init__(self, root: Path, registry: str, model: str, alias: str) -> None:
        self._sets = root / registry / model
        self._last = self._sets / f"{alias}.json"

    def directory(self, pointer: Pointer) -> Path:
        """Return the path of a version's files; it may not exist."""
        return self._sets / pointer.name

    def fetch(self, source: Source, pointer: Pointer) -> Path:
        """Return the version's files from disk, or download them; a partial download leaves no directory."""
        directory = self.directory(pointer)
        if not directory.is_dir():
            with _typed(directory), replacing_directory(directory) as temporary:
                source.fetch(pointer, temporary)
        return directory

    def forget(self, pointer: Pointer) -> None:
        """Delete damaged files."""
        shutil.rmtree(self.directory(pointer), ignore_errors=True)

    def remember(self, pointer: Named) -> None:
        """Record the current version or retirement, and delete the oldest sets."""
        with _typed(self._last):
            write_json(self._last, pointer.as_dict())
            if not isinstance(pointer, Retired):
                self.directory(pointer).touch()
        needed = {found.name for path in self._sets.glob("*.json") if (found := _named(path)) is not None}
        old = sorted(
            (path for path in self._sets.iterdir() if path.is_dir() and not path.name.startswith(".")),
            key=lambda path: (path.name in needed, path.stat().st_mtime),
        )
        for path in old[:-_KEEP]:
            shutil.rmtree(path, ignore_errors=True)

    def last(self) -> Named | None:
        """Return the version or retirement that served last on this host; None without a readable record."""
        return _named(self._last)


def _named(path: Path) -> Named | None:
    try:
        return named_from_dict(read_json(path))
    except FileNotFoundError:
        return None
    except (SlcError, OSError, LookupError, ValueError, TypeError, AttributeError) as error:
        _log.warning("%s does not name the last served version: %s", path, error)
        return None


@contextmanager
def _typed(path: Path) -> Iterator[None]:
    """Raise disk errors as :class:`RegistryError`."""
    try:
        yield
    except SlcError:
        raise
    except OSError as error:
        raise RegistryError(f"cannot write {path}: {error.strerror or error}") from None
