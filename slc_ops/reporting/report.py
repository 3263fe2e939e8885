"""One self-contained page per refresh: the verdict, served models over time, figures, tables."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from slc_ops.base.files import replacing_directory, write_text
from slc_ops.base.window import Window
from slc_ops.evidence.detectability import Detectability, read_detectability
from slc_ops.evidence.metrics import METRICS, headline_metrics, paired_metrics
from slc_ops.evidence.results import Backtest, Served, served_on
from slc_ops.evidence.uncertainty import MAX_CLUSTERS
from slc_ops.evidence.verdict import Verdict, method_in_words, parameters_in_words
from slc_ops.evidence.within import ranking_in_words
from slc_ops.parameters.parameter_set import ParameterSet
from slc_ops.reporting import tables
from slc_ops.reporting.figures import forests, learned, over_time, series
from slc_ops.reporting.style import Drawing, render


def write_report(
    page: Path,
    *,
    verdict: dict[str, Any],
    backtest: dict[str, Any],
    detectability: Path | None = None,
    parameters: Path | None = None,
    validation: dict[str, Any] | None = None,
    plan: dict[str, Any] | None = None,
    served: Sequence[Served] = (),
) -> Path:
    """Write ``page`` and ``figures/*.png`` beside it; return the page.

    ``verdict`` and ``backtest`` are ``as_dict`` forms, ``detectability`` is the output of
    :func:`~slc_ops.evidence.detectability.write_detectability`, ``parameters`` a parameter set,
    ``validation`` the data quality verdict of the newest window, ``plan`` the plan of the refresh, ``served``
    the results of earlier windows. The page names missing parts.
    """
    evidence, ruling = Backtest.from_dict(backtest), Verdict.from_dict(verdict)
    seen = None if detectability is None else read_detectability(detectability)
    fitted = None if parameters is None else ParameterSet.read(parameters)
    with replacing_directory(page.parent / "figures") as temporary:
        got = [*served, *([now] if (now := served_on(evidence)) is not None else [])]
        drawings = draw_all(temporary, evidence, ruling, seen, fitted, got)
    method, plan = ruling.method, plan or {}
    items = evidence.items.get(method or "", {})
    slices = tables.slice_rows(evidence, method)
    groups = [row for row in slices if row["ours"]["kind"] == "group"]
    renewed = (ruling.verdict, ruling.kind) == ("promote", "renewal")
    text = render(
        "report.html.j2",
        drawings,
        deployment=plan.get("deployment", "backtest"),
        window=str(Window.from_dict(ruling.window)),
        verdict=ruling,
        word="Renew" if renewed else ruling.verdict.capitalize(),
        which_method=method_in_words(ruling.as_dict()),
        its_parameters=parameters_in_words(ruling.as_dict()),
        most_clusters=MAX_CLUSTERS,
        backtest=evidence,
        detectability=seen,
        parameters=fitted,
        validation=validation,
        plan=plan,
        against=evidence.differences.get(method or "", {}),
        chosen=evidence.newest.get(method or ""),
        headline=headline_metrics(),
        metrics=METRICS.values(),
        paired=paired_metrics(),
        kinds=list(next((each.within for each in evidence.newest.values() if each.within), {})),
        ranking=ranking_in_words({name: evidence.newest[name].within for name in evidence.methods}),
        slices=[row for row in slices if row["ours"]["kind"] in ("density", "cold_start")],
        groups=groups,
        together=next(iter(evidence.slice_differences.get(method or "", {}).values()), None),
        worst_group=tables.worst_group(groups),
        best_items=items.get("best", []),
        worst_items=items.get("worst", []),
    )
    write_text(page, text)
    return page


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
