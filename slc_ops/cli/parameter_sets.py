"""``--params``: a parameter set from a directory or a registered model; renaming of its items."""

import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from slc_ops.base.console import emit_json, json_option, say
from slc_ops.base.errors import RegistryError

if TYPE_CHECKING:
    from slc_ops.parameters.parameter_set import ParameterSet
    from slc_ops.serving.export import Exported

_REGISTERED = re.compile(r"models:/(?P<name>[^/@]+)(?:@(?P<alias>[^/@]+)|/(?P<version>[0-9]+))")


@click.command(name="rename-items")
@click.option("--params", required=True, metavar="DIR|MODEL", help="A parameter set, or models:/NAME@ALIAS.")
@click.option(
    "--mapping", required=True, type=click.Path(path_type=Path), help="CSV with the columns old_id, new_id."
)
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Directory of the new set.")
@json_option
def rename_items(params: str, mapping: Path, out: Path) -> None:
    """Carry a parameter set's offsets over to new item ids.

    Each item of the file keeps its offset, variance and counts under its new id; all others stay. Unknown
    ids, ids in use, chains and cycles are refused.
    """
    from slc_ops.parameters.renaming import read_mapping, renamed

    names = read_mapping(mapping)
    renamed(parameter_set(params), names).write(out)
    emit_json({"renamed": len(names), "out": str(out)})
    say(f"{len(names)} item{'s' if len(names) > 1 else ''} renamed; the new set is in {out}")


def parameter_set(reference: str) -> "ParameterSet":
    """Read and verify ``DIR``, ``models:/NAME@ALIAS`` or ``models:/NAME/VERSION``."""
    from slc_ops.parameters.parameter_set import ParameterSet

    if not reference.startswith("models:/"):
        return ParameterSet.read(Path(reference))
    with tempfile.TemporaryDirectory(prefix="slc-ops-") as directory:
        return ParameterSet.read(_download(reference, Path(directory))[0])


def to_export(reference: str) -> "Exported":
    """Return the set with its digest and, from the registry, its version."""
    from slc_ops.parameters import PARAMS
    from slc_ops.parameters.parameter_set import ParameterSet
    from slc_ops.parameters.storage import read_params
    from slc_ops.serving.export import Exported

    with tempfile.TemporaryDirectory(prefix="slc-ops-") as scratch:
        directory, version = Path(reference), None
        if reference.startswith("models:/"):
            directory, version = _download(reference, Path(scratch))
        found = ParameterSet.read(directory)
        return Exported(found, read_params(directory / PARAMS)["params_digest"], version)


def _download(reference: str, directory: Path) -> tuple[Path, int]:
    from slc_ops.base.mlflow_client import connect
    from slc_ops.registry.tracking import typed
    from slc_ops.settings.environment import Installation

    found = _REGISTERED.fullmatch(reference)
    if found is None:
        raise RegistryError(
            f"{reference!r} names no model: expected models:/NAME@ALIAS or models:/NAME/VERSION"
        )
    installation = Installation.from_environment()
    uri = installation.tracking_uri
    with typed(uri):
        client = connect(uri, registry_uri=installation.registry_uri)
        from mlflow.artifacts import download_artifacts

        # Use our own client: MLflow resolves a models:/ address against the process's global registry.
        version = found["version"] or client.get_model_version_by_alias(found["name"], found["alias"]).version
        source = client.get_model_version_download_uri(found["name"], version)
        download_artifacts(artifact_uri=source, dst_path=str(directory), tracking_uri=uri)
    sets = sorted(directory.rglob("params.json"))
    if len(sets) != 1:
        raise RegistryError(f"{reference} holds {len(sets)} parameter sets; expected exactly one")
    return sets[0].parent, int(version)
