"""The figures of the report; titles name the content, captions explain it."""

from collections.abc import Sequence
from pathlib import Path

from slc_ops.evidence.detectability import Detectability
from slc_ops.evidence.results import Backtest, Served
from slc_ops.evidence.verdict import Verdict
from slc_ops.parameters.parameter_set import ParameterSet
from slc_ops.reporting.figures import forests, learned, over_time, series
from slc_ops.reporting.style import Drawing


def draw_all(
    directory: Path,
    backtest: Backtest,
    verdict: Verdict,
    detectability: Detectability | None,
    parameters: ParameterSet | None,
    served: Sequence[Served] = (),
) -> dict[str, Drawing]:
    """Draw every figure that has evidence; write PNGs to ``directory``. ``served`` holds past results."""
    drawings: list[Drawing | None] = [
        series.draw(directory, backtest, verdict, served),
        forests.draw_rivals(directory, backtest, verdict),
        forests.draw_methods(directory, backtest, verdict),
        over_time.draw(directory, backtest, verdict),
        learned.draw_reliability(directory, backtest, verdict),
        forests.draw_density(directory, backtest, verdict),
        learned.draw_offsets(directory, parameters),
        learned.draw_detectability(directory, detectability),
    ]
    return {drawing.name: drawing for drawing in drawings if drawing is not None}
