"""Users' tables in parameter sets: personal data, which ``erase`` and ``clean`` remove.

A set whose table loses rows is rewritten with new digests and golden vectors; everything else in it stays
identical. The ledger contains a version's digest, so a receipt (``resealed``) records the new one, which
``verify`` then uses.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path

from slc_ops.base.methods import METHODS
from slc_ops.parameters import IN_MODEL, effect_file
from slc_ops.parameters.storage import remove_users
from slc_ops.refresh.files import RefreshFiles, refreshes_in
from slc_ops.refresh.retention import is_recent, versions_in_use
from slc_ops.refresh.versions import registered_by
from slc_ops.registry import Registry, Version
from slc_ops.registry.erasures import record_erasure
from slc_ops.registry.logged_model import download
from slc_ops.registry.publication import digest_of_set
from slc_ops.registry.tracking import typed
from slc_ops.settings.environment import Installation, registered_model

Belongs = Callable[[str], bool]


def strip_refresh(files: RefreshFiles, belongs: Belongs) -> int:
    """Remove users from every set of a refresh; return the number of removed rows."""
    tables = sorted(files.directory.rglob(effect_file("user")))
    return sum(remove_users(table.parent, belongs) for table in tables)


def strip_version(
    registry: Registry, version: Version, belongs: Belongs, note: Callable[[str, str], None]
) -> None:
    """Remove users from a version's set in MLflow; a missing set contains none.

    ``note`` is called with its number and the new digest before the set is replaced.
    """
    from mlflow.exceptions import MlflowException
    from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

    if version.method in METHODS and "user" not in METHODS[version.method].looks_at:
        return
    client, uri = registry.client, registry.installation.tracking_uri
    with tempfile.TemporaryDirectory(prefix="slc-erase-") as scratch, typed(uri):
        name = registered_model(version.deployment)
        try:
            source = client.get_model_version(name, str(version.number)).source
            directory = download(client, source, IN_MODEL, Path(scratch))
        except (MlflowException, OSError):
            return
        if not remove_users(directory, belongs):
            return
        note(str(version.number), digest_of_set(directory))
        store = get_artifact_repository(source, tracking_uri=client.tracking_uri)
        store.log_artifacts(str(directory), IN_MODEL)


def drop_user_tables(installation: Installation, name: str) -> list[str]:
    """Empty the users' tables of all versions but the champion and a rollback's target; return the versions.

    Tables of refreshes that may be running stay.
    """

    def everyone(user: str) -> bool:
        return True

    keep = versions_in_use(installation, name, challenger=False)
    for files in refreshes_in(installation.refreshes(name)):
        if not is_recent(files.directory) and not keep & {each.number for each in registered_by(files)}:
            strip_refresh(files, everyone)
    registry, resealed = Registry.open(installation, create=False), dict[str, str]()
    for version in registry.ledger.versions(name):
        if version.number not in keep:
            strip_version(registry, version, everyone, resealed.__setitem__)
    if resealed:
        details = {"users": [], "rows": {}, "versions": [], "unknown_versions": [], "resealed": resealed}
        record_erasure(registry.ledger, name, details, "clean")
    return sorted(resealed, key=int)
