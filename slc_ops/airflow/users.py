"""Who is a user of this Airflow, where its configuration tells."""

from collections.abc import Sequence


def strangers_in_words(approvers: Sequence[str]) -> str | None:
    """One line about approvers who do not exist; None where all do, or nobody here can tell.

    On a worker only a list of users that its own configuration names counts: Airflow's default list would
    be another host's.
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
    """The ids of Airflow's users where its configuration lists them (simple login); None where it does not.

    ``default`` also believes the list that Airflow has when nobody sets one, as its API server does.
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
