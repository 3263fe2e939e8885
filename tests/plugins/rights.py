"""An auth manager with permissions per DAG: a user may read the DAGs whose names end with the user's."""

from typing import Any

from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager


class RightsPerDag(SimpleAuthManager):
    """``admin`` may read everything, anybody else only their own deployment."""

    def is_authorized_dag(
        self, *, method: Any, user: Any, access_entity: Any = None, details: Any = None
    ) -> bool:
        """Check the DAG id; the base class supports roles only."""
        allowed = super().is_authorized_dag(
            method=method, user=user, access_entity=access_entity, details=details
        )
        mine = details is not None and str(details.id).endswith(f"__{user.username}")
        return allowed and (user.username == "admin" or mine)
