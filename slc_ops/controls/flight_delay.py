"""``flight-delay``: the positive control, in which the backbone has no route parameters.

Embedded data: New York 2013, trained until 5 May, calibrated until 1 September, tested until the end of the
year; and a change of season (calibrated in summer, tested in autumn), where past route effects predict little
and nothing may be promoted. Full protocol: a folder of BTS files, 2018 for training, 2019 for the rest.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from slc_ops.base.window import Window
from slc_ops.controls.arms import Arm, Request, Role, declare, write_lake
from slc_ops.controls.flight_backbone import BACKBONES, known, scored, train
from slc_ops.controls.flights import Flights, gather
from slc_ops.settings.environment import Installation

NAME = "flight-delay"


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
YEARS_2018_2019 = Season(Window.parse("2018-01-01/2019-01-01"), Window.parse("2019-07-02/2019-12-31"))


def prepare(installation: Installation, request: Request, tell: Callable[[str], None]) -> list[Arm]:
    """Collect flights, train the backbones, write a lake for every arm."""
    backbones = request.backbones(BACKBONES)
    flights = gather(request.data, installation.home / "flights", tell)
    season = YEAR_2013 if request.data is None else YEARS_2018_2019
    for period in (season.train, season.calibration, season.test):
        flights.require_every_month(period)
    arms = [
        _arm(each, number, season, "positive" if each == "bbA" else "observed")
        for each in backbones
        for number in request.seeds
    ]
    if request.data is None:
        arms.append(_arm(backbones[0], request.seeds[0], TURN_2013, "turning"))
    declare(installation, arms)
    for arm in arms:
        tell(f"{arm.name}: train the backbone")
        write_lake(installation, arm, _log(flights, TURN_2013 if arm.role == "turning" else season, arm))
    return arms


def _arm(backbone: str, seed: int, season: Season, role: Role) -> Arm:
    suffix = "-turn" if role == "turning" else ""
    return Arm(f"{backbone.lower()}-seed{seed}{suffix}", backbone, seed, role, season.test)


def _log(flights: Flights, season: Season, arm: Arm) -> Iterator[pa.RecordBatch]:
    learned = known(flights, season.train)
    model = train(flights, learned, season.train, arm.backbone, arm.seed)
    for period in (season.calibration, season.test):
        yield from scored(flights, learned, period, model, arm.backbone, arm.seed)
