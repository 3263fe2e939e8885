"""Users of this Airflow, if its configuration lists them."""

from collections.abc import Sequence


def strangers_in_words(approvers: Sequence[str]) -> str | None:
    """Describe approvers without an account; None if all exist or the users are unknown.

    A worker uses only a user list that its own configuration sets; Airflow's default list may differ from
    that of the API server.
    """
    users = users_by_configuration()
    unknown = [name for name in approvers if users is not None and name not in users]
    if not unknown:
        return None
    left = "nobody can answer" if len(unknown) == len(approvers) else "the others can answer"
    return (
        f"approvers: {', '.join(unknown)} is no user of this Airflow, {left}; "
        "correct approvers in the deployments file"
    )


def users_by_configuration(*, default: bool = False) -> set[str] | None:
    """Return the user ids if Airflow's configuration lists them (simple login), otherwise None.

    ``default`` also accepts Airflow's default list, as its API server does.
    """
    from airflow.configuration import conf

    if not conf.get("core", "auth_manager").endswith("SimpleAuthManager"):
        return None
    if conf.getboolean("core", "simple_auth_manager_all_admins"):
        return None
    listed = conf.get("core", "simple_auth_manager_users")
    if not default and listed == conf.get_default_value("core", "simple_auth_manager_users"):
        return None
    return {entry.strip().partition(":")[0] for entry in listed.split(",")}
