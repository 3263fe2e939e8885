"""Export a parameter set as SQL, CSV, JSON lines or Redis commands.

Every export is a directory with ``export.json``: method, version, link and effects. It replaces an earlier
export as a whole, and no other files.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

import pyarrow.csv

from slc_ops.base.addresses import without_secrets
from slc_ops.base.buffers import as_numpy
from slc_ops.base.errors import StorageError
from slc_ops.base.files import replacing_directory, write_text
from slc_ops.parameters.effects import COLUMNS, SERVED, Effect
from slc_ops.parameters.parameter_set import ParameterSet
from slc_ops.serving.export_sql import Names, write_sql

DESCRIPTION = "export.json"
KEPT = 86_400
"""Seconds for which Redis keeps the previous version's hash, for readers that still use its name."""
_AT_ONCE = 500
"""Ids per command."""
_PATIENCE = 10.0
"""Timeout of Redis in seconds."""


@dataclass(frozen=True)
class Exported:
    """A parameter set with its digest and version."""

    parameters: ParameterSet
    digest: str
    """``params_digest`` of the set."""
    version: int | None = None
    """Its version in the registry."""

    @property
    def comment(self) -> str:
        """A one-line description."""
        origin = self.parameters.provenance
        parts = [
            f"deployment {origin.deployment}" if origin.deployment else None,
            f"version {self.version}" if self.version is not None else None,
            f"method {self.parameters.method}",
            f"window {origin.window}" if origin.window else None,
            f"set {self.digest[:12]}",
        ]
        return "slc_ops: " + ", ".join(part for part in parts if part)

    def described(self) -> dict[str, Any]:
        """Return the link and all other values that are not rows of an effect."""
        ours, origin = self.parameters, self.parameters.provenance
        return {
            "method": ours.method,
            "deployment": origin.deployment,
            "version": self.version,
            "params_digest": self.digest,
            "backbone_version": origin.backbone_version,
            "link": ours.link.as_dict(),
            "cold_link": None if ours.cold is None else ours.cold.as_dict(),
            "logit_mean": ours.logit_mean,
            "effects": {
                name: {"time_edges": None if each.time_edges is None else each.time_edges.tolist()}
                for name, each in ours.effects.items()
            },
        }


def export(
    found: Exported, directory: Path, form: str, *, dialect: str = "duckdb", names: Names | None = None
) -> list[str]:
    """Write the export and return the names of its files.

    Args:
        form: ``sql``, ``csv``, ``jsonl`` or ``redis``.
        dialect: A key of :data:`DIALECTS`, for ``sql`` only.
        names: Names of tables, columns and prefix.

    Raises:
        StorageError: The directory contains other files than an export.
    """
    if directory.is_dir() and not (directory / DESCRIPTION).exists() and any(directory.iterdir()):
        raise StorageError(
            f"{directory} contains files that are not an export and would be lost; choose another name"
        )
    with replacing_directory(directory) as temporary:
        names, files = names or Names(), list[str]()
        if form == "sql":
            files = write_sql(found.parameters, temporary, dialect, names, found.comment)
        elif form == "redis":
            files = ["load.resp"]
            with (temporary / "load.resp").open("wb") as out:
                out.writelines(_command(*words) for words in _commands(found, names.prefix))
        else:
            write = {"csv": _write_csv, "jsonl": _write_jsonl}[form]
            for name, effect in _ordered(found.parameters):
                files.append(f"{names.prefix}_{name}.{form}")
                write(effect, temporary / files[-1])
        described = {"format": form, **({"dialect": dialect} if form == "sql" else {}), **found.described()}
        text = json.dumps({**described, "files": files}, indent=2, ensure_ascii=False) + "\n"
        write_text(temporary / DESCRIPTION, text)
    return [*files, DESCRIPTION]


def _ordered(parameters: ParameterSet) -> Iterator[tuple[str, Effect]]:
    return ((name, parameters.effects[name]) for name in COLUMNS if name in parameters.effects)


def _write_csv(effect: Effect, path: Path) -> None:
    """Write a row per id, or per id and time bin; texts are quoted, numbers are not."""
    columns = [each for each in SERVED if each in effect.table.column_names]
    pyarrow.csv.write_csv(effect.table.select(columns), path)


def _write_jsonl(effect: Effect, path: Path) -> None:
    """Write an object per id; with time bins, its values are lists."""
    with path.open("w", encoding="utf-8") as out:
        out.writelines(
            json.dumps({"id": each, **values}, ensure_ascii=False) + "\n" for each, values in _by_id(effect)
        )


def _by_id(effect: Effect) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Yield each id with its offset and slope: a number, or a list with time bins."""
    columns = [each for each in ("offset", "slope") if each in effect.table.column_names]
    values = [as_numpy(effect.table.column(each)) for each in columns]
    if effect.time_edges is not None:
        values = [each.reshape(-1, effect.bins) for each in values]
    for first in range(0, len(ids := effect.ids), _AT_ONCE):
        parts = [each[first : first + _AT_ONCE].tolist() for each in values]
        for each, *row in zip(ids.slice(first, _AT_ONCE).to_pylist(), *parts, strict=True):
            yield each, dict(zip(columns, row, strict=True))


# --- Redis and Valkey -------------------------------------------------------------------------------------

_SWAP = """
if redis.call('HLEN', KEYS[1]) ~= tonumber(ARGV[1]) then
  return redis.error_reply('slc_ops: ' .. KEYS[1] .. ' is not complete; the version before still serves')
end
local before = redis.call('GET', KEYS[2])
redis.call('PERSIST', KEYS[1])
redis.call('SET', KEYS[2], KEYS[1])
if before and before ~= KEYS[1] then redis.call('EXPIRE', before, ARGV[2]) end
return redis.status_reply('OK')
"""
"""Move the pointer in one step, and only to a complete hash."""


def load_redis(found: Exported, url: str, prefix: str) -> None:
    """Send the same commands to a server; on failure (:class:`StorageError`) the previous version serves."""
    from redis import Redis, RedisError

    client = Redis.from_url(url, socket_timeout=_PATIENCE, socket_connect_timeout=_PATIENCE)
    try:
        for words in _commands(found, prefix):
            client.execute_command(*words)  # type: ignore[no-untyped-call] # redis
    except (RedisError, OSError) as error:
        said = without_secrets(f"{url}: {' '.join(str(error).split())[:300]}")
        raise StorageError(f"not loaded; the previous version still serves. Try again. {said}") from None
    finally:
        client.close()


def _commands(found: Exported, prefix: str) -> Iterator[tuple[str, ...]]:
    """Yield the commands of ``load.resp``: the version's hash, then the pointer ``<prefix>:current``."""
    key, fields = f"{prefix}:{found.digest[:16]}", 1
    yield "HSET", key, "link", json.dumps(found.described(), ensure_ascii=False)
    for name, effect in _ordered(found.parameters):
        entries = ((f"{name}:{each}", json.dumps(values)) for each, values in _by_id(effect))
        while some := list(islice(entries, _AT_ONCE)):
            yield "HSET", key, *chain.from_iterable(some)
            fields += len(some)
    yield "EVAL", _SWAP, "2", key, f"{prefix}:current", str(fields), str(KEPT)


def _command(*words: str) -> bytes:
    encoded = [word.encode() for word in words]
    return b"".join([b"*%d\r\n" % len(encoded), *(b"$%d\r\n%b\r\n" % (len(each), each) for each in encoded)])
