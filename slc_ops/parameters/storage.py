"""The parameter set on disk (docs/serving.md): plain files, no pickle, verified when read."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from slc_ops.base.buffers import as_arrow
from slc_ops.base.digests import digest_file, digest_text
from slc_ops.base.errors import ParameterSetError, SlcError
from slc_ops.base.files import replacing_directory, write_text
from slc_ops.base.window import Window
from slc_ops.numerics.curves import Affine, curve_from_dict
from slc_ops.parameters import GOLDEN, PARAMS, effect_file
from slc_ops.parameters.effects import COLUMNS, SERVED, Effect
from slc_ops.parameters.golden import TOLERANCE, check_golden, golden_vectors
from slc_ops.parameters.parameter_set import ParameterSet, PriorMean, Provenance

SCHEMA_VERSION = 1
BACKBONE_RULES = ("frozen", "refuse", "serve")
MAX_ROWS = 50_000_000
"""Maximum number of rows of an effect's table, equal to the maximum number of cells in a fit."""
MAX_JSON = 16 << 20
"""Maximum size in bytes of ``params.json`` and of ``golden.json``."""
_ORIGIN = ("deployment", "backbone_version", "input_digest", "config_digest", "code_version")
"""The texts of a set's provenance."""
_STATED = re.compile(r'("params_digest": ")[0-9a-f]{64}"')


def write(parameters: ParameterSet, directory: Path) -> None:
    """Write all files to a temporary directory, then rename it; refuse one with other files."""
    if _holds_other_files(directory):
        raise ParameterSetError(
            f"{directory} holds other files than a parameter set, which would be lost; choose a new name"
        )
    with replacing_directory(directory) as temporary:
        entries = {}
        for name, effect in parameters.effects.items():
            effect.check(name)
            path = temporary / effect_file(name)
            pq.write_table(effect.table, path, compression="zstd")
            entries[name] = _entry(effect, path)
        vectors = ",\n    ".join(json.dumps(each, ensure_ascii=False) for each in golden_vectors(parameters))
        golden = f'{{\n  "tolerance": {TOLERANCE},\n  "vectors": [\n    {vectors}\n  ]\n}}\n'
        write_text(temporary / GOLDEN, golden)
        values = _as_dict(parameters) | {
            "effects": entries,
            "golden_digest": digest_file(temporary / GOLDEN),
            "params_digest": "0" * 64,
        }
        text = json.dumps(values, indent=2, sort_keys=True, allow_nan=False, ensure_ascii=False) + "\n"
        write_text(temporary / PARAMS, signed(text))


def remove_users(directory: Path, belongs: Callable[[str], bool]) -> int:
    """Rewrite a set without the users for which ``belongs`` is True; return their number.

    Digests and golden vectors, which may contain users, are recomputed; all else stays the same.
    """
    if not (directory / effect_file("user")).exists():
        return 0
    parameters = read(directory)
    effect = parameters.effects["user"]
    keep = np.array([not belongs(str(each)) for each in effect.table.column("id").to_pylist()], np.bool_)
    if keep.all():
        return 0
    table = effect.table.take(as_arrow(np.flatnonzero(keep)))
    write(parameters.with_effect("user", replace(effect, table=table)), directory)
    return int(np.count_nonzero(~keep))


def signed(text: str) -> str:
    """Return the text of ``params.json`` with its digest: SHA-256 of the text with 64 zeros in its place."""
    text = _STATED.sub(rf'\g<1>{"0" * 64}"', text)
    return _STATED.sub(rf'\g<1>{digest_text(text)}"', text)


def _holds_other_files(directory: Path) -> bool:
    """Return True if the directory is not a set and holds files that do not belong to one."""
    try:
        names = {path.name for path in directory.iterdir()}
    except (FileNotFoundError, NotADirectoryError):
        return False
    return PARAMS not in names and bool(names - {GOLDEN, *map(effect_file, COLUMNS)})


def read(directory: Path, *, deployment: str | None = None, served: bool = False) -> ParameterSet:
    """Read a directory of :func:`write`, verify it, and refuse a set of another ``deployment``.

    With ``served`` only the columns that determine probabilities and intervals are read.
    """
    path = directory / PARAMS
    with _understood(path):
        values = read_params(path)
        own = values["deployment"]
        if deployment is not None and own not in (None, deployment):
            raise ParameterSetError(f"the set is one of the deployment {own!r:.60}; expected {deployment!r}")
        effects = {
            name: _read_effect(directory, name, values["effects"], served) for name in values["effects"]
        }
        parameters = _from_dict(values, effects)
    with _understood(directory / GOLDEN):
        golden = _read_json(_verified(directory / GOLDEN, values["golden_digest"]))
        check_golden(parameters, golden["vectors"])
    return parameters


def read_params(path: Path) -> dict[str, Any]:
    """Return the values of ``params.json`` after a check of schema version and digest."""
    values = _read_json(path)
    version = values.get("schema_version") if isinstance(values, dict) else None
    if version != SCHEMA_VERSION or isinstance(version, bool):
        raise ParameterSetError(
            f"{path.parent} has schema version {version!r:.40}; this release reads {SCHEMA_VERSION} (upgrade "
            "slc-ops, or fit again)"
        )
    text = path.read_text(encoding="utf-8")
    if len(_STATED.findall(text)) != 1 or signed(text) != text:
        raise ParameterSetError(f"{path} was changed after it was written; fit again")
    if unknown := sorted(set(values["effects"]) - set(COLUMNS)):
        raise ParameterSetError(f"{path} has an effect {unknown[0]!r:.40}; expected {', '.join(COLUMNS)}")
    return dict(values)


def stated_sizes(directory: Path) -> dict[str, int]:
    """Return the effects' file names and sizes in bytes, as stated in ``params.json``."""
    with _understood(directory / PARAMS):
        effects = read_params(directory / PARAMS)["effects"]
        paths = {name: directory / effect_file(name) for name in effects}
        return {path.name: _rows_and_bytes(path, name, effects[name])[1] for name, path in paths.items()}


def _rows_and_bytes(path: Path, name: str, entry: Any) -> tuple[int, int]:
    """Return rows and bytes of an effect's file from ``params.json``, within the limits."""
    rows, size = entry["rows"], entry["bytes"]
    if (
        not (type(rows) is type(size) is int and 0 <= rows <= MAX_ROWS and size > 0)
        or entry["file"] != path.name
    ):
        raise ParameterSetError(
            f"params.json states {rows!r:.40} rows and {size!r:.40} bytes for the effect {name} in "
            f"{entry['file']!r:.40}; expected {path.name} with at most {MAX_ROWS:,} rows"
        )
    return rows, size


def _read_effect(directory: Path, name: str, entries: dict[str, Any], served: bool) -> Effect:
    entry, path = entries[name], directory / effect_file(name)
    rows, size = _rows_and_bytes(path, name, entry)
    if (found := _verified(path, entry["digest"]).stat().st_size) != size:
        raise ParameterSetError(f"{path} has {found} bytes; params.json says {size}")
    # One thread and no read-ahead halve the memory; a million items still take 0.2 s.
    with pq.ParquetFile(path, pre_buffer=False) as file:
        names = file.schema_arrow.names
        if file.metadata.num_rows != rows or names != entry["columns"]:
            raise ParameterSetError(
                f"{path} has {file.metadata.num_rows} rows of {', '.join(names)}; params.json says {rows} of "
                f"{', '.join(entry['columns'])}"
            )
        table = file.read([each for each in names if each in SERVED] if served else None, use_threads=False)
    edges = entry["time_edges"]
    effect = Effect(
        table=table,
        prior_var=_optional(entry["prior_var"]),
        slope_prior_var=_optional(entry["slope_prior_var"]),
        time_edges=None if edges is None else np.asarray(edges, dtype=np.float64),
    )
    effect.check(name)
    return effect


@contextmanager
def _understood(path: Path) -> Iterator[None]:
    """Convert every error of reading a set to `ParameterSetError`."""
    try:
        yield
    except ParameterSetError:
        raise
    except SlcError as error:
        raise ParameterSetError(str(error)) from None
    except (AttributeError, LookupError, TypeError, ValueError, ArithmeticError, RecursionError) as error:
        raise ParameterSetError(f"{path} cannot be understood: {error!r:.200}") from None
    except (pa.ArrowException, OSError, MemoryError) as error:
        raise ParameterSetError(f"{path.parent} cannot be read: {str(error)[:200]}") from None


def _read_json(path: Path) -> Any:
    if (size := _existing(path).stat().st_size) > MAX_JSON:
        raise ParameterSetError(f"{path} has {size:,} bytes; at most {MAX_JSON:,} are read")

    def refuse(name: str) -> None:
        raise ValueError(f"{name} is no number")

    try:
        return json.loads(path.read_text(encoding="utf-8"), parse_constant=refuse)
    except ValueError as error:
        raise ParameterSetError(f"{path} is not JSON: {error}") from None


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise ParameterSetError(f"{path} is missing; a parameter set needs it")
    return path


def _verified(path: Path, digest: Any) -> Path:
    found = digest_file(_existing(path))
    if found != digest:
        raise ParameterSetError(
            f"{path} has the digest {found[:12]}…, params.json says {str(digest)[:12]}…: it was changed or "
            "belongs to another set"
        )
    return path


def _entry(effect: Effect, path: Path) -> dict[str, Any]:
    edges = effect.time_edges
    return {
        "file": path.name,
        "digest": digest_file(path),
        "bytes": path.stat().st_size,
        "rows": effect.table.num_rows,
        "columns": effect.table.column_names,
        "prior_var": effect.prior_var,
        "slope_prior_var": effect.slope_prior_var,
        "time_edges": None if edges is None else edges.tolist(),
    }


def _as_dict(parameters: ParameterSet) -> dict[str, Any]:
    origin = parameters.provenance
    return {
        "schema_version": SCHEMA_VERSION,
        "method": parameters.method,
        "link": parameters.link.as_dict(),
        "logit_mean": parameters.logit_mean,
        "counts": {"rows": parameters.n_rows, "items": parameters.n_items},
        "warnings": list(parameters.warnings),
        "window": None if origin.window is None else origin.window.bounds,
        **{name: getattr(origin, name) for name in _ORIGIN},
        # Omit optional keys that are not set.
        **({} if parameters.cold is None else {"cold_link": parameters.cold.as_dict()}),
        **({} if (rule := origin.on_backbone_mismatch) is None else {"on_backbone_mismatch": rule}),
        **({} if (mean := origin.prior_mean) is None else {"prior_mean": asdict(mean)}),
    }


def _rule(found: Any) -> str | None:
    if found not in (None, *BACKBONE_RULES):
        raise ValueError(f"on_backbone_mismatch is {found!r}; expected {', '.join(BACKBONE_RULES)}")
    return None if found is None else str(found)


def _optional(found: Any) -> float | None:
    return None if found is None else _number(found)


def _number(found: Any) -> float:
    if isinstance(found, bool) or not isinstance(found, int | float) or not isfinite(found):
        raise ValueError(f"{found!r:.40} is no number")
    return float(found)


def _text(found: Any) -> str:
    if not isinstance(found, str):
        raise ValueError(f"{found!r:.40} is no text")
    return found


def _from_dict(values: dict[str, Any], effects: dict[str, Effect]) -> ParameterSet:
    window = values["window"]
    cold = None if (line := values.get("cold_link")) is None else curve_from_dict(line)
    if not (cold is None or isinstance(cold, Affine)):
        raise ValueError(f"cold_link is of kind {cold.kind!r}; expected 'affine'")
    return ParameterSet(
        method=_text(values["method"]),
        link=curve_from_dict(values["link"]),
        effects=effects,
        logit_mean=_number(values["logit_mean"]),
        n_rows=int(values["counts"]["rows"]),
        n_items=int(values["counts"]["items"]),
        warnings=tuple(_text(each) for each in values["warnings"]),
        provenance=Provenance(
            window=None if window is None else Window.from_dict(window),
            on_backbone_mismatch=_rule(values.get("on_backbone_mismatch")),
            prior_mean=None if (mean := values.get("prior_mean")) is None else PriorMean(**mean),
            **{name: None if values[name] is None else _text(values[name]) for name in _ORIGIN},
        ),
        cold=cold,
    )
