"""A complete page of evidence from rows whose names are markup."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slc_ops.evidence.detectability import detectability, write_detectability
from slc_ops.methods import FitOptions, fit
from slc_ops.reporting import write_report
from slc_ops.rows.interactions import InteractionLog
from slc_ops.settings.blocks import Decision
from tests.evidence.worlds import backtest, decide, rows, week

HOSTILE = "<script>alert('item')</script>"


def hostile_week(number, path):
    """Rows whose names are markup, and a group that has one class only."""
    table = rows(number, n=2500, bias_sd=0.9, seed=31, items=40)
    frame = table.to_pandas()
    frame["item_id"] = frame["item_id"].replace({"item-1": HOSTILE})
    frame.loc[frame.item_id == "item-2", ["label", "group_id"]] = [1, "one & only $class$"]
    pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), path)
    return week(number), path


@pytest.fixture(scope="session")
def evidence(tmp_path_factory):
    root = tmp_path_factory.mktemp("report")
    weeks = [hostile_week(number, root / f"{number}.parquet") for number in range(5)]
    champion = fit(
        "slc", InteractionLog.read(weeks[0][1]), options=FitOptions(prior_var=0.01)
    ).with_provenance(window=week(0))
    result = backtest(
        weeks,
        methods=["slc", "temperature"],
        link_windows=2,
        offset_windows=2,
        evidence_windows=3,
        champion=champion,
    )
    learned = InteractionLog.read([path for _, path in weeks[3:]])
    seen = detectability(learned)
    write_detectability(seen, root / "detectability")
    fit("slc", learned).write(root / "parameters")
    verdict = decide(result, seen, Decision())
    return {
        "verdict": verdict.as_dict(),
        "backtest": result.as_dict(),
        "detectability": root / "detectability",
        "parameters": root / "parameters",
        "validation": {
            "status": "warned",
            "rows": 2500,
            "quarantined": 3,
            "findings": [
                {"code": "repeated", "severity": "warning", "sentence": "<b>rows</b> occur twice",
                 "count": 3, "rows": 2500},
            ],
        },
        "plan": {
            "deployment": "demo",
            "windows": [{"window": week(n).as_dict()} for n in range(5)],
            "excluded": [{"window": "2026-01-05", "reason": "it was <i>empty</i>"}],
            "input_digest": "abc123",
            "config_digest": "def456",
            "code_version": "0.1.0",
        },
    }  # fmt: skip


@pytest.fixture(scope="session")
def page(evidence, tmp_path_factory):
    return write_report(tmp_path_factory.mktemp("page") / "report.html", **evidence)
