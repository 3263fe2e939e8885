"""The parameter set on disk (contract, section 4): three files, no pickle, verified when read."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from slc_ops.base.errors import ParameterSetError
from slc_ops.base.files import digest_file, digest_json, read_json, replacing_directory, write_json
from slc_ops.base.window import Window
from slc_ops.numerics.curves import Affine, curve_from_dict
from slc_ops.parameters import GOLDEN, ITEMS, PARAMS
from slc_ops.parameters.golden import check_golden, golden_vectors
from slc_ops.parameters.parameter_set import ParameterSet, PriorMean, Provenance

SCHEMA_VERSION = 1
COLD_LINE_VERSION = 2
"""Version 2 is version 1 and ``cold_link``, the line of items that are not in the table. It is written where
there is such a line only, so that every other set stays what older releases read."""
BACKBONE_RULES = ("frozen", "refuse", "serve")


def write(parameters: ParameterSet, directory: Path) -> None:
    """Write all files to a temporary directory and rename it last.

    Only a parameter set or an empty directory is replaced: a slip of the name must not cost other files.
    """
    if _holds_other_files(directory):
        raise ParameterSetError(
            f"{directory} holds other files than a parameter set, which would be lost; choose a new name"
        )
    with replacing_directory(directory) as temporary:
        items_digest = None
        if parameters.items is not None:
            pq.write_table(parameters.items, temporary / ITEMS, compression="zstd")
            items_digest = digest_file(temporary / ITEMS)
        golden = golden_vectors(parameters)
        write_json(temporary / GOLDEN, {"tolerance": 1e-9, "vectors": golden})
        values = _as_dict(parameters) | {
            "items_digest": items_digest,
            "golden_digest": digest_file(temporary / GOLDEN),
        }
        write_json(temporary / PARAMS, values | {"params_digest": digest_json(values)})


def _holds_other_files(directory: Path) -> bool:
    """By one look: another writer may put its set in place meanwhile."""
    try:
        names = {path.name for path in directory.iterdir()}
    except (FileNotFoundError, NotADirectoryError):
        return False
    return bool(names) and PARAMS not in names


def read(directory: Path, columns: list[str] | None = None) -> ParameterSet:
    """Read what :func:`write` wrote; anything missing, altered or unknown is refused.

    ``columns`` of the items are all of them, or as many as a server needs: ``item_id`` and ``offset``.
    """
    values = _read_params(directory)
    items = None
    if values["items_digest"] is not None:
        path = _existing(directory / ITEMS)
        _verify(path, values["items_digest"])
        # One thread and no read-ahead: half the memory, and a million items still take 0.2 s.
        with pq.ParquetFile(path, pre_buffer=False) as file:
            items = file.read(columns=columns, use_threads=False)
    _verify(_existing(directory / GOLDEN), values["golden_digest"])
    try:
        parameters = _from_dict(values, items)
    except (KeyError, TypeError, ValueError) as error:
        raise ParameterSetError(f"{directory / PARAMS} cannot be understood: {error!r}") from None
    check_golden(parameters, read_json(directory / GOLDEN)["vectors"])
    return parameters


def _read_params(directory: Path) -> dict[str, Any]:
    try:
        values = read_json(_existing(directory / PARAMS))
    except ValueError as error:
        raise ParameterSetError(f"{directory / PARAMS} is not JSON: {error}") from None
    version = values.get("schema_version") if isinstance(values, dict) else None
    if version not in (SCHEMA_VERSION, COLD_LINE_VERSION):
        raise ParameterSetError(
            f"{directory} has schema version {version!r}; this release reads {SCHEMA_VERSION} and "
            f"{COLD_LINE_VERSION} (upgrade slc-ops, or fit again)"
        )
    stated = values.pop("params_digest", None)
    if stated != digest_json(values):
        raise ParameterSetError(f"{directory / PARAMS} was changed after it was written; fit again")
    return dict(values)


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise ParameterSetError(f"{path} is missing; a parameter set needs it")
    return path


def _verify(path: Path, digest: str) -> None:
    found = digest_file(path)
    if found != digest:
        raise ParameterSetError(
            f"{path} has the digest {found[:12]}…, params.json says {str(digest)[:12]}…: it was changed or "
            "belongs to another set"
        )


def _as_dict(parameters: ParameterSet) -> dict[str, Any]:
    origin = parameters.provenance
    edges = parameters.time_edges
    cold: dict[str, Any] = {"schema_version": SCHEMA_VERSION}
    if parameters.cold is not None:
        cold = {"schema_version": COLD_LINE_VERSION, "cold_link": parameters.cold.as_dict()}
    return {
        **cold,
        "method": parameters.method,
        "link": parameters.link.as_dict(),
        "prior_var": parameters.prior_var,
        "time_edges": None if edges is None else edges.tolist(),
        "counts": {"rows": parameters.n_rows, "items": parameters.n_items},
        "warnings": list(parameters.warnings),
        "deployment": origin.deployment,
        "window": None if origin.window is None else origin.window.bounds,
        "backbone_version": origin.backbone_version,
        "input_digest": origin.input_digest,
        "config_digest": origin.config_digest,
        "code_version": origin.code_version,
        # Only where a deployment says it, so that all other sets keep their bytes.
        **({} if (rule := origin.on_backbone_mismatch) is None else {"on_backbone_mismatch": rule}),
        **({} if (mean := origin.prior_mean) is None else {"prior_mean": asdict(mean)}),
    }


def _rule(found: Any) -> str | None:
    if found not in (None, *BACKBONE_RULES):
        raise ValueError(f"on_backbone_mismatch is {found!r}; expected {', '.join(BACKBONE_RULES)}")
    return None if found is None else str(found)


def _from_dict(values: dict[str, Any], items: pa.Table | None) -> ParameterSet:
    window, edges = values["window"], values["time_edges"]
    cold = curve_from_dict(values["cold_link"]) if values["schema_version"] == COLD_LINE_VERSION else None
    if not (cold is None or isinstance(cold, Affine)):
        raise ValueError(f"cold_link is of kind {cold.kind!r}; expected 'affine'")
    return ParameterSet(
        method=values["method"],
        link=curve_from_dict(values["link"]),
        items=items,
        prior_var=values["prior_var"],
        time_edges=None if edges is None else np.asarray(edges, dtype=np.float64),
        n_rows=values["counts"]["rows"],
        n_items=values["counts"]["items"],
        warnings=tuple(values["warnings"]),
        provenance=Provenance(
            deployment=values["deployment"],
            window=None if window is None else Window.from_dict(window),
            backbone_version=values["backbone_version"],
            input_digest=values["input_digest"],
            config_digest=values["config_digest"],
            code_version=values["code_version"],
            on_backbone_mismatch=_rule(values.get("on_backbone_mismatch")),
            prior_mean=None if (mean := values.get("prior_mean")) is None else PriorMean(**mean),
        ),
        cold=cold,
    )
