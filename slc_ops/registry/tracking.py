"""Access to MLflow for the registry: typed errors, and experiments with their artifact location."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from slc_ops.base.addresses import without_secrets
from slc_ops.base.errors import RegistryError, SlcError
from slc_ops.base.mlflow_client import load_mlflow
from slc_ops.settings.environment import Installation

if TYPE_CHECKING:
    from mlflow import MlflowClient


@contextmanager
def typed(tracking_uri: str) -> Iterator[None]:
    """Raise errors of MLflow and its transports as :class:`RegistryError` with the tracking URI."""
    load_mlflow()
    import requests
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except SlcError:
        raise
    except (MlflowException, requests.RequestException, SQLAlchemyError, OSError) as error:
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise RegistryError(without_secrets(f"MLflow at {tracking_uri} refused: {first}")) from error


def experiment(client: "MlflowClient", installation: Installation, name: str) -> str:
    """Return the id of the experiment ``name``, created on first use with its artifact location."""
    from mlflow.exceptions import MlflowException

    found = client.get_experiment_by_name(name)
    if found is None:
        remote = installation.tracking_uri.startswith(("http://", "https://"))
        location = (
            None if remote else f"{installation.artifact_root.rstrip('/')}/{name}"
        )  # a server has its own location
        try:
            return str(client.create_experiment(name, artifact_location=location))
        except MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise
            found = client.get_experiment_by_name(name)  # another process created it first
    if found.lifecycle_stage != "active":
        raise RegistryError(
            f"the experiment {name!r} was deleted in MLflow; restore it (mlflow experiments restore "
            f"--experiment-id {found.experiment_id}) and publish again"
        )
    return str(found.experiment_id)
