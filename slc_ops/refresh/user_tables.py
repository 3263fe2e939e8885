"""Tables of users in parameter sets: personal data, which ``erase`` and ``clean`` take out again.

A set whose table loses rows is written anew, with its digests and golden vectors; everything else in it stays
to the last bit. A version's digest stands in the ledger, so the new one is entered with a receipt
(``resealed``), which ``verify`` then goes by.
"""

import tempfile
from collections.abc import Callable, Collection
from pathlib import Path

from slc_ops.base.methods import METHODS
from slc_ops.parameters import effect_file
from slc_ops.parameters.storage import remove_users
from slc_ops.refresh.files import RefreshFiles, refreshes_in
from slc_ops.refresh.versions import registered_by
from slc_ops.registry import Registry, Version
from slc_ops.registry.erasures import Receipt, record_erasure
from slc_ops.registry.logged_model import download
from slc_ops.registry.model import PARAMETERS
from slc_ops.registry.publication import digest_of_set
from slc_ops.registry.tracking import typed
from slc_ops.settings.deployments import Installation
from slc_ops.settings.environment import registered_model

Belongs = Callable[[str], bool]


def strip_refresh(files: RefreshFiles, belongs: Belongs) -> int:
    """Take users out of every set that a refresh keeps; returns how many rows went."""
    tables = sorted(files.directory.rglob(effect_file("user")))
    return sum(remove_users(table.parent, belongs) for table in tables)


def strip_version(
    registry: Registry,
    version: Version,
    belongs: Belongs,
    note: Callable[[int, str], None] = lambda number, digest: None,
) -> str | None:
    """Take users out of a version's set in MLflow; its new digest, None if it stays as it is.

    ``note`` hears the digest before anything is replaced. A set that is no longer there has nobody in it.
    """
    from mlflow.exceptions import MlflowException
    from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

    if version.method in METHODS and "user" not in METHODS[version.method].looks_at:
        return None
    client, uri = registry.client, registry.installation.tracking_uri
    with tempfile.TemporaryDirectory(prefix="slc-erase-") as scratch, typed(uri):
        name = registered_model(version.deployment)
        try:
            source = client.get_model_version(name, str(version.number)).source
            directory = download(client, source, PARAMETERS, Path(scratch))
        except (MlflowException, OSError):
            return None
        if not remove_users(directory, belongs):
            return None
        digest = digest_of_set(directory)
        note(version.number, digest)
        store = get_artifact_repository(source, tracking_uri=client.tracking_uri)
        store.log_artifacts(str(directory), PARAMETERS)
    return digest


def drop_old_tables(
    installation: Installation, name: str, keep: Collection[int], at_work: Collection[Path]
) -> Receipt | None:
    """Empty the users' tables of all versions but ``keep``; the receipt of those that had any."""

    def everyone(user: str) -> bool:
        return True

    for files in refreshes_in(installation.refreshes(name)):
        if files.directory not in at_work and not set(keep) & {each.number for each in registered_by(files)}:
            strip_refresh(files, everyone)
    registry, resealed = Registry.open(installation, create=False), {}
    for version in registry.ledger.versions(name):
        if version.number not in keep:
            digest = strip_version(registry, version, everyone)
            if digest is not None:
                resealed[str(version.number)] = digest
    if not resealed:
        return None
    details = {"users": [], "rows": {}, "versions": [], "unknown_versions": [], "resealed": resealed}
    return record_erasure(registry.ledger, name, details, "clean")
