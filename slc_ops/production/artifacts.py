"""A copy of the artifact store in a directory, and back: the part of a backup that no database dump holds."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from slc_ops.base.errors import SettingsError


def save_artifacts(environment: Mapping[str, str], directory: Path) -> int:
    """Copy every artifact into a new directory, which appears whole or not at all; answers how many."""
    from slc_ops.base.files import replacing_directory

    if directory.exists():
        raise SettingsError(f"{directory} exists; name a new directory for this backup")
    with replacing_directory(directory) as temporary:
        _repository(environment).download_artifacts("", str(temporary))
        return _count(temporary)


def restore_artifacts(environment: Mapping[str, str], directory: Path) -> int:
    """Copy what :func:`save_artifacts` wrote back into the store; what is there besides stays."""
    if not directory.is_dir():
        raise SettingsError(f"{directory} is no directory; name the one a backup was saved in")
    _repository(environment).log_artifacts(str(directory))
    return _count(directory)


def _repository(environment: Mapping[str, str]) -> Any:
    from slc_ops.base.mlflow_client import quiet_mlflow

    quiet_mlflow()
    from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

    destination = environment.get("MLFLOW_ARTIFACTS_DESTINATION")
    if not destination:
        raise SettingsError("MLFLOW_ARTIFACTS_DESTINATION is not set; run this as the service mlflow")
    return get_artifact_repository(destination)


def _count(directory: Path) -> int:
    return sum(1 for path in directory.rglob("*") if path.is_file())
