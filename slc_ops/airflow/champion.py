"""DAGs for manual changes of the champion: ``slc_promote``, ``slc_rollback``, ``slc_retire``."""

from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, AssetAlias, Param, get_current_context, task

from slc_ops.airflow.assets import champion_asset
from slc_ops.airflow.forms import deployment_field, optional, plain_dag, reason_field
from slc_ops.airflow.messages import notify
from slc_ops.airflow.runs import checked_conf, run_actor, run_request
from slc_ops.base.window import Window
from slc_ops.observability.notify import champion_sentence, retirement_sentence
from slc_ops.settings.environment import Installation

if TYPE_CHECKING:
    from slc_ops.registry import Registry, Version

CHAMPIONS = AssetAlias(name="slc champions")
"""Alias of ``slc://<deployment>/champion`` for the deployment in the form."""

PROMOTE_DOC = """\
### Promote a version manually

Makes a registered version the champion of its deployment, by the registry's rules: an older window never
replaces a newer one, and a version that its evidence rejected needs an override. Who and why are kept in the
ledger. The versions are on the page **SLC** and in MLflow.
"""

ROLLBACK_DOC = """\
### Roll back to an earlier champion

Restores the previous champion, or an earlier one by number. From then on only later windows change the
champion by rule. The rolled-back method waits for the given number of windows, or until a person promotes it
with `slc_promote`.
"""

RETIRE_DOC = """\
### Retire a champion

Lets the frozen model serve again: there is no champion any more, serving hosts fall back to the frozen
probabilities at their next check. `slc_promote` ends the retirement, `slc_rollback` restores the retired
champion. Retiring twice changes nothing.
"""


@task(outlets=[CHAMPIONS])
def promote_by_hand() -> str:
    """Promote the version given in the form."""
    registry, form = _asked()
    name = form["deployment"]
    before = registry.champion(name)
    version = registry.promote(
        name,
        int(form["version"]),
        actor=run_actor(),
        reason=form["reason"],
        override=form["override"] or None,
        request=run_request(),
    )
    if before is None or before.number != version.number:
        _notify("promotion", version, form["reason"])
    return _moved(name, version.number, version.window)


@task(outlets=[CHAMPIONS])
def roll_back() -> str:
    """Restore an earlier champion."""
    registry, form = _asked()
    name = form["deployment"]
    to = None if form["to"] is None else int(form["to"])
    version = registry.rollback(
        name,
        to,
        actor=run_actor(),
        reason=form["reason"],
        request=run_request(),
        windows=None if form["windows"] is None else int(form["windows"]),
        exclude_window=form["exclude_window"],
    )
    _notify("rollback", version, form["reason"])
    return _moved(name, version.number, version.window)


@task(outlets=[CHAMPIONS])
def retire() -> str:
    """Retire the champion; the frozen model serves."""
    registry, form = _asked()
    name = form["deployment"]
    change = registry.retire(name, actor=run_actor(), reason=form["reason"], request=run_request())
    if change.evidence.get("request") == run_request():  # otherwise already retired and announced
        notify("retired", name, retirement_sentence(change), change.window)
    _moved(name, None, change.window)
    return f"{name} has no champion: {change}"


def _asked() -> tuple["Registry", dict[str, Any]]:
    """Return the registry and the form; raise for an unknown deployment."""
    from slc_ops.registry import Registry

    form, installation = checked_conf(), Installation.from_environment()
    installation.deployment(form["deployment"])
    return Registry.open(installation), form


def _moved(name: str, version: int | None, window: Window) -> str:
    """Emit the champion's asset event; return the log message."""
    extra = {"version": version, "window": str(window)}
    get_current_context()["outlet_events"][CHAMPIONS].add(champion_asset(name), extra=extra)
    return f"version {version} is the champion of {name}"


def _notify(event: str, version: "Version", reason: str) -> None:
    sentence = champion_sentence(event, version, run_actor(), reason)
    notify(event, version.deployment, sentence, version.window, version.number)


def promote_dag() -> DAG:
    """Build ``slc_promote``."""
    return _form(
        "slc_promote",
        "Promote a version",
        "Make a registered version the champion",
        PROMOTE_DOC,
        promote_by_hand,
        version=Param(type="integer", minimum=1, title="Version", description="Of slc-<deployment>"),
        reason=reason_field("this version should be champion"),
        override=optional(
            "string",
            "Override",
            "Only for a version that its evidence rejected: why it should be champion",
            maxLength=1000,
        ),
    )


def rollback_dag() -> DAG:
    """Build ``slc_rollback``."""
    return _form(
        "slc_rollback",
        "Roll back a champion",
        "Make an earlier champion the champion again",
        ROLLBACK_DOC,
        roll_back,
        to=optional("integer", "Version", "An earlier champion; empty: the previous one", minimum=1),
        windows=optional(
            "integer",
            "For how many windows",
            "The method may return by rule after so many windows; empty: only by a person",
            minimum=1,
            maximum=1000,
        ),
        exclude_window=Param(
            False,
            type="boolean",
            title="Leave its window out",
            description="Later fits leave out the window of the rolled-back version",
        ),
        reason=reason_field("the current champion should be replaced"),
    )


def retire_dag() -> DAG:
    """Build ``slc_retire``."""
    return _form(
        "slc_retire",
        "Retire a champion",
        "Let the frozen model serve again",
        RETIRE_DOC,
        retire,
        reason=reason_field("the frozen model should serve"),
    )


def _form(dag_id: str, title: str, description: str, doc: str, move: Any, **fields: Param) -> DAG:
    """Build a DAG of one task, started from a form whose first field is the deployment."""
    params = {"deployment": deployment_field(), **fields}
    with plain_dag(dag_id, title, description, doc, "registry", 0.5, params=params) as dag:
        move()
    return dag
