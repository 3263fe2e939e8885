"""The figures of the report, one per file; titles name what is shown, numbers say what it means."""

from collections.abc import Sequence
from pathlib import Path

from slc_ops.evidence.detectability import Detectability
from slc_ops.evidence.results import Backtest, Served
from slc_ops.evidence.verdict import Verdict
from slc_ops.parameters.parameter_set import ParameterSet
from slc_ops.reporting.figures import (
    density,
    detectable,
    methods,
    offsets,
    over_time,
    reliability,
    rivals,
    series,
)
from slc_ops.reporting.style import Drawing


def draw_all(
    directory: Path,
    backtest: Backtest,
    verdict: Verdict,
    detectability: Detectability | None,
    parameters: ParameterSet | None,
    served: Sequence[Served] = (),
) -> dict[str, Drawing]:
    """Draw every figure there is evidence for; PNGs go to ``directory``. ``served``: what the windows got."""
    drawings: list[Drawing | None] = [
        series.draw(directory, backtest, verdict, served),
        rivals.draw(directory, backtest, verdict),
        methods.draw(directory, backtest, verdict),
        over_time.draw(directory, backtest, verdict),
        reliability.draw(directory, backtest, verdict),
        density.draw(directory, backtest, verdict),
        offsets.draw(directory, parameters),
        detectable.draw(directory, detectability),
    ]
    return {drawing.name: drawing for drawing in drawings if drawing is not None}
