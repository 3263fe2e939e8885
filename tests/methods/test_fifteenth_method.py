"""A new method is one module and one line; all code that distinguishes methods uses them."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import slc_ops.methods
from slc_ops import cli
from slc_ops.base.errors import SelfTestFailed, SettingsError
from slc_ops.base.methods import METHODS, Method, ladder
from slc_ops.evidence.compare import compare
from slc_ops.evidence.tuning import candidates
from slc_ops.methods import FitOptions, fit
from slc_ops.parameters.parameter_set import ParameterSet
from slc_ops.reporting import write_report
from slc_ops.rows.interactions import InteractionLog
from slc_ops.settings.blocks import Decision
from slc_ops.settings.deployments_file import load_deployments
from tests.evidence.worlds import backtest, decide, write_weeks
from tests.methods.synthetic import log, table
from tests.methods.test_table import methods_page

# The one line.
HALF_STEP = Method("half_step", "Half of the offsets of slc.", "moves it", ("score", "item"), ("prior_var",))


@pytest.fixture
def added(monkeypatch):
    """Add the method; ``facts`` may be changed to see which code uses them."""
    folder = str(Path(__file__).parent / "fifteenth")
    monkeypatch.setattr(slc_ops.methods, "__path__", [*slc_ops.methods.__path__, folder])

    def add(**facts):
        monkeypatch.setitem(METHODS, "half_step", replace(HALF_STEP, **facts))

    add()
    yield add
    sys.modules.pop("slc_ops.methods.half_step", None)


@pytest.fixture(scope="module")
def weeks(tmp_path_factory):
    return write_weeks(tmp_path_factory.mktemp("weeks"), 4, bias_sd=0.9, seed=5)


def backtested(weeks):
    return backtest(weeks, methods=["half_step"], link_windows=2, evidence_windows=2)


def run(*arguments):
    return CliRunner().invoke(cli.app, [str(a) for a in arguments], catch_exceptions=False)


def test_it_is_the_last_entry_of_the_table(added):
    assert list(METHODS)[-1] == "half_step"
    assert ladder(["half_step"]) == ("base", "platt", "platt_eb", "half_step")


def deployments(tmp_path):
    path = tmp_path / "deployments.yaml"
    path.write_text("deployments:\n  d:\n    source: {kind: lake, path: x}\n    methods: [slc, half_step]\n")
    return path


def test_settings_accept_it(added, tmp_path):
    assert load_deployments(deployments(tmp_path))["d"].methods == ("slc", "half_step")


def test_settings_refuse_it_if_it_is_not_in_the_table(tmp_path):
    with pytest.raises(SettingsError, match="no method 'half_step'; the ladder has base"):
        load_deployments(deployments(tmp_path))


@pytest.mark.parametrize("command", ["fit", "compare", "sweep", "backtest"])
def test_the_help_of_every_command_with_methods_describes_it(added, command):
    assert "half_step    Half of the offsets of slc." in run(command, "--help").output


def test_the_command_line_fits_it_and_reads_its_parameter_set(added, tmp_path):
    pq.write_table(table(), tmp_path / "rows.parquet")
    arguments = ["--input", tmp_path / "rows.parquet", "--method", "half_step", "--out", tmp_path / "set"]
    answer = json.loads(run("fit", *arguments, "--json", "-").output)
    assert answer["link"] is None  # the table says that it fits none
    assert ParameterSet.read(tmp_path / "set").method == "half_step"
    added(fits_link=True)
    assert ParameterSet.read(tmp_path / "set").affine() == fit("slc", log()).affine()


@pytest.mark.slow
def test_the_backfill_form_offers_it(added):
    from slc_ops.airflow.backfill import backfill_dag

    assert "half_step" in backfill_dag().params.get_param("methods").schema["items"]["enum"]


def test_compare_includes_it(added):
    found = compare(log(), log(seed=1))
    assert list(found.methods)[-1] == "half_step"


def test_it_is_left_out_if_the_rows_lack_a_column(added):
    timeless = [InteractionLog.from_table(table(seed=seed).drop_columns(["event_time"])) for seed in (0, 1)]
    assert "half_step" in compare(*timeless).methods
    added(looks_at=("score", "item", "time"))
    found = compare(*timeless)
    assert "half_step" not in found.methods
    assert found.warnings == ("no event_time: platt_time, naive, slc_t, half_step are left out",)


def test_its_options_are_tuned(added):
    def tried():
        return [
            (o.prior_var, o.time_bins)
            for o in candidates("half_step", FitOptions(), Decision(prior_vars=(0.1,), time_bins=(5,)))
        ]

    assert tried() == [(1.0, 10), (0.1, 10)]
    added(tunes=("time_bins",))
    assert tried() == [(1.0, 10), (1.0, 5)]
    added(tunes=())
    assert tried() == [(1.0, 10)]


def test_the_decision_may_promote_it(added, weeks):
    verdict = decide(backtested(weeks), None, Decision())
    assert (verdict.verdict, verdict.method) == ("promote", "half_step")


def test_the_decision_excludes_a_tracker_if_drift_is_not_detectable(added, weeks):
    added(tracks_drift=True)
    verdict = decide(backtested(weeks), None, Decision())
    assert "may_not:half_step" in {reason["code"] for reason in verdict.reasons}
    assert verdict.method != "half_step"


def test_the_self_test_fails_if_the_table_claims_that_it_keeps_the_order(added, weeks):
    added(monotone=True)
    with pytest.raises(SelfTestFailed, match="half_step changed the AUC"):
        backtested(weeks)


@pytest.mark.slow
def test_the_report_has_its_row(added, weeks, tmp_path):
    result = backtested(weeks)
    page = write_report(
        tmp_path / "report.html",
        verdict=decide(result, None, Decision()).as_dict(),
        backtest=result.as_dict(),
    )
    rows = [row for row in page.read_text().split("<tr")[1:] if "half_step" in row.split("</t")[0]]
    auc = f"{result.newest['half_step'].metrics.auc:.4f}"
    assert any(auc in row for row in rows)


def test_the_documentation_must_list_it(added):
    path, generated = methods_page()
    row = "| `half_step` | Half of the offsets of slc. | score, item | `prior_var` | moves it |"
    assert row in generated
    assert path.read_text() != generated  # the check of the page fails until the table is regenerated
