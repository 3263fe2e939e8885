"""Moving a champion by hand: ``slc_promote`` and ``slc_rollback``, forms over the registry's functions."""

from typing import Any

from airflow.sdk import DAG, AssetAlias, Param, get_current_context, task

from slc_ops.airflow.assets import champion_asset
from slc_ops.airflow.forms import deployment_field, reason_field
from slc_ops.airflow.notify import announce
from slc_ops.airflow.retries import PROMOTION_POOL, default_args
from slc_ops.airflow.runs import checked_conf, run_actor, run_request
from slc_ops.settings import Places

CHAMPIONS = AssetAlias(name="slc champions")
"""Stands for ``slc://<deployment>/champion`` of whichever deployment the form names."""

PROMOTE_DOC = """\
### Promote a version by hand

Makes a registered version the champion of its deployment, by the registry's rules: an older window never
replaces a newer one, and a version that its evidence rejected needs an override. Who and why are kept in the
ledger. The versions are on the page **SLC** and in MLflow.
"""

ROLLBACK_DOC = """\
### Roll back to an earlier champion

Gives the crown back to the champion before the present one, or to an earlier one by number. The weekly
refresh will not promote what was taken back; a person may, with `slc_promote`.
"""


@task(pool=PROMOTION_POOL, outlets=[CHAMPIONS])
def promote_by_hand() -> str:
    """Promote the version that the form names."""
    from slc_ops.registry import Registry

    form = checked_conf({"deployment", "version", "reason", "override"})
    places, name = _known(form)
    version = Registry.open(places).promote(
        name,
        int(form["version"]),
        actor=run_actor(),
        reason=form["reason"],
        override=form["override"] or None,
        request=run_request(),
    )
    return _told(name, version)


@task(pool=PROMOTION_POOL, outlets=[CHAMPIONS])
def roll_back() -> str:
    """Give the crown back."""
    from slc_ops.registry import Registry

    form = checked_conf({"deployment", "to", "reason"})
    places, name = _known(form)
    to = None if form["to"] is None else int(form["to"])
    version = Registry.open(places).rollback(
        name, to, actor=run_actor(), reason=form["reason"], request=run_request()
    )
    said = _told(name, version)
    sentence = f"{run_actor()} rolled back: {said} ({form['reason']})"
    announce("rollback", name, sentence, get_current_context(), window=str(version.window))
    return said


def _known(form: dict[str, Any]) -> tuple[Places, str]:
    """The places and the deployment's name; an unknown one is an error before anything is opened."""
    places = Places.from_environment()
    places.deployment(form["deployment"])
    return places, str(form["deployment"])


def _told(name: str, version: Any) -> str:
    """Tell whoever schedules on the champion, and the log."""
    extra = {"version": version.number, "window": str(version.window)}
    get_current_context()["outlet_events"][CHAMPIONS].add(champion_asset(name), extra=extra)
    return f"version {version.number} is the champion of {name}"


def promote_dag() -> DAG:
    """Build ``slc_promote``."""
    with DAG(
        dag_id="slc_promote",
        dag_display_name="Promote a version",
        description="Make a registered version the champion, by hand",
        schedule=None,
        default_args=default_args("slc-ops", hours=0.5),
        tags=["slc", "registry"],
        doc_md=PROMOTE_DOC,
        params={
            "deployment": deployment_field(),
            "version": Param(type="integer", minimum=1, title="Version", description="Of slc-<deployment>"),
            "reason": reason_field("this version should reign"),
            "override": Param(
                None,
                type=["null", "string"],
                title="Override",
                maxLength=1000,
                description="Only for a version that its evidence rejected: why it should reign nevertheless",
            ),
        },
    ) as dag:
        promote_by_hand()
    return dag


def rollback_dag() -> DAG:
    """Build ``slc_rollback``."""
    with DAG(
        dag_id="slc_rollback",
        dag_display_name="Roll back a champion",
        description="Give the crown back to an earlier champion",
        schedule=None,
        default_args=default_args("slc-ops", hours=0.5),
        tags=["slc", "registry"],
        doc_md=ROLLBACK_DOC,
        params={
            "deployment": deployment_field(),
            "to": Param(
                None,
                type=["null", "integer"],
                minimum=1,
                title="Version",
                description="An earlier champion; empty: the one before the present champion",
            ),
            "reason": reason_field("the present champion should go"),
        },
    ) as dag:
        roll_back()
    return dag
