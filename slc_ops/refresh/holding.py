"""How many windows in a row were held: nobody should have to count that in a ledger."""

from slc_ops.refresh.plan import Plan
from slc_ops.settings.deployments import Places


def held_in_a_row(places: Places, plan: Plan) -> int:
    """The windows up to this one, newest first, that brought no new champion, this one included.

    Counted by the ledger: windows that published a version since the last change of the champion.
    """
    from slc_ops.registry import Registry

    ledger = Registry.open(places).ledger
    line = ledger.line(plan.deployment)
    since = line[-1].window.end if line else None
    windows = {
        version.window
        for version in ledger.versions(plan.deployment)
        if version.window.end <= plan.window.end and (since is None or version.window.end > since)
    }
    return len(windows | {plan.window})
