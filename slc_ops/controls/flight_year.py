"""The year of the flight control: New York 2013 replayed week by week.

Backbones are trained on January and February and frozen; the 43 weeks from 4 March on are replayed with
default settings. The served model must not be worse than Platt refitted every week nor than the frozen model,
and must keep at least 80 % of the gain of ``slc_eb`` refitted every week.
"""

from collections.abc import Callable, Sequence

from slc_ops.base.text import share, signed
from slc_ops.base.window import Window
from slc_ops.controls.arms import Arm, write_lake
from slc_ops.controls.flight_backbone import known, scored, train
from slc_ops.controls.flights import Flights
from slc_ops.controls.verdict import Check
from slc_ops.evidence.replayed import SERVED, Replay
from slc_ops.settings.deployments import Deployment
from slc_ops.settings.environment import Installation
from slc_ops.settings.sources import LakeSource

LEARNED = Window.parse("2013-01-01/2013-03-01")
REPLAYED = Window.parse("2013-03-04/2013-12-30")
KEPT = 0.8


def replay_year(
    installation: Installation,
    flights: Flights,
    backbones: Sequence[str],
    seed: int,
    tell: Callable[[str], None],
) -> dict[str, Replay]:
    """Replay the year for every backbone; return the replays by arm name."""
    from slc_ops.refresh.replay import replay_windows, run_replay

    flights.require_every_month(REPLAYED)
    learned = known(flights, LEARNED)
    found = {}
    for backbone in backbones:
        arm = Arm(f"{backbone.lower()}-seed{seed}-year", backbone, seed, "observed", REPLAYED)
        tell(f"{arm.name}: replay {REPLAYED}")
        model = train(flights, learned, LEARNED, backbone, seed)
        write_lake(installation, arm, scored(flights, learned, REPLAYED, model, backbone, seed))
        settings = Deployment(source=LakeSource(path=f"lake/{arm.name}"))
        start, end = (f"{timestamp:%Y-%m-%d}" for timestamp in (REPLAYED.start, REPLAYED.end))
        windows = replay_windows(settings, start, end)
        target = installation.replays(arm.name)
        found[arm.name] = run_replay(arm.name, settings, windows, target, home=installation.home)
    return found


def check_year(arm: str, replay: Replay) -> list[Check]:
    """Compare the served results of the year with the expectations."""
    platt, frozen = replay.against("platt"), replay.against("base")[SERVED].mean
    served, weekly = platt[SERVED].mean, platt["slc_eb"].mean
    kept = share(served / weekly) if weekly < 0 else "it gains nothing"
    checks = {
        "Platt": (
            "the served model is not worse than Platt refitted every week",
            f"NLL {signed(served)} over {platt[SERVED].windows} weeks",
            served <= 0,
        ),
        "frozen": (
            "the served model is not worse than the frozen model",
            f"NLL {signed(frozen)}",
            frozen <= 0,
        ),
        "slc_eb": (
            f"served keeps at least {share(KEPT)} of what slc_eb refitted every week gains over Platt",
            f"NLL {signed(served)} of {signed(weekly)}: {kept}",
            served <= KEPT * min(weekly, 0.0),
        ),
    }
    return [Check(arm, f"served, {name}", *each) for name, each in checks.items()]
