"""``flight-delay``: the positive control, in which the backbone has no route parameters.

Embedded data: New York 2013, trained until 5 May, calibrated until 1 September, tested until the end of the
year; and a change of season (calibrated in summer, tested in autumn), where past route effects predict little
and nothing may be promoted. Full protocol: a folder of BTS files, 2018 for training, 2019 for the rest.

The year 2013 is also replayed week by week with default settings: 43 weeks from 4 March on, with backbones
that are trained on January and February and frozen. The served model must not be worse than Platt refitted
every week nor than the frozen model, and must keep at least 80 % of the gain of ``slc_eb`` refitted weekly.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from slc_ops.base.text import share, signed
from slc_ops.base.window import Window
from slc_ops.controls.arms import Arm, Request, Role, declare, write_lake
from slc_ops.controls.flight_backbone import known, scored, train
from slc_ops.controls.flights import Flights, gather
from slc_ops.controls.verdict import Check
from slc_ops.evidence.replayed import SERVED, Replay
from slc_ops.settings.deployments import Deployment
from slc_ops.settings.environment import Installation
from slc_ops.settings.sources import LakeSource

NAME = "flight-delay"
ROLES: dict[str, Role] = {"bbA": "positive", "bbB": "observed"}


@dataclass(frozen=True)
class Season:
    """Training, calibration and test windows; the last two have equal length."""

    train: Window
    test: Window

    @property
    def calibration(self) -> Window:
        """The window before the test window."""
        return self.test.before(1)[0]


YEAR_2013 = Season(Window.parse("2013-01-01/2013-05-06"), Window.parse("2013-09-02/2013-12-30"))
TURN_2013 = Season(Window.parse("2013-01-01/2013-07-01"), Window.parse("2013-09-30/2013-12-30"))
LEARNED, REPLAYED = Window.parse("2013-01-01/2013-03-01"), Window.parse("2013-03-04/2013-12-30")
KEPT = 0.8
YEARS_2018_2019 = Season(Window.parse("2018-01-01/2019-01-01"), Window.parse("2019-07-02/2019-12-31"))


def prepare(installation: Installation, request: Request, tell: Callable[[str], None]) -> list[Arm]:
    """Collect flights, train the backbones, write a lake for every arm."""
    season = YEAR_2013 if request.data is None else YEARS_2018_2019
    arms = request.arms(ROLES, season.test)
    if request.data is None:
        turn = replace(arms[0], name=f"{arms[0].name}-turn", role="turning", window=TURN_2013.test)
        arms.append(turn)
    flights = gather(request.data, installation.home / "flights", tell)
    for period in (season.train, season.calibration, season.test):
        flights.require_every_month(period)
    declare(installation, arms)
    for arm in arms:
        tell(f"{arm.name}: train the backbone")
        own = TURN_2013 if arm.role == "turning" else season
        write_lake(installation, arm, _log(flights, own.train, (own.calibration, own.test), arm))
    return arms


def _log(flights: Flights, learning: Window, periods: Sequence[Window], arm: Arm) -> Iterator[pa.RecordBatch]:
    learned = known(flights, learning)
    model = train(flights, learned, learning, arm.backbone, arm.seed)
    for period in periods:
        yield from scored(flights, learned, period, model, arm.backbone, arm.seed)


def replay_year(
    installation: Installation, arms: Sequence[Arm], tell: Callable[[str], None]
) -> dict[str, Replay]:
    """Replay the year for every backbone; return the replays by arm name."""
    from slc_ops.refresh.replay import replay_windows, run_replay

    flights = gather(None, installation.home / "flights")
    flights.require_every_month(REPLAYED)
    found = {}
    for backbone in dict.fromkeys(arm.backbone for arm in arms):
        seed = arms[0].seed
        arm = Arm(f"{backbone.lower()}-seed{seed}-year", backbone, seed, "observed", REPLAYED)
        tell(f"{arm.name}: replay {REPLAYED}")
        write_lake(installation, arm, _log(flights, LEARNED, (REPLAYED,), arm))
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
