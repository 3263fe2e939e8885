"""The report: verdict first, complete, no scripts, no requests."""

import json
import re
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from slc_ops.evidence.backtest import Backtest, Champion
from slc_ops.parameters.effects import Effect
from slc_ops.parameters.parameter_set import ParameterSet, PriorMean
from slc_ops.reporting import write_report
from slc_ops.reporting.figures import learned
from slc_ops.settings.blocks import Decision
from tests.evidence.worlds import decide

FIGURES = {"series", "rivals", "methods", "over_time", "reliability", "density", "offsets", "detectability"}


def visible(page):
    """The text that a reader sees, without tags and styles."""
    text = re.sub(r"<style>.*?</style>|<svg.*?</svg>", " ", page.read_text(), flags=re.S)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", text))


def test_the_verdict_comes_first(page):
    text = visible(page)
    assert text.index("Renew slc") < text.index("AUC") < text.index("Why")
    assert "Renew slc with 2026-02-02/2026-02-09; the method stays" in text
    assert "slc stays: NLL" in text


def test_both_decisions_are_explained_below_the_served_score(page):
    text = visible(page)
    served, method = text.index("Against Platt, window by window"), text.index("Which method serves")
    assert served < method < text.index("Its parameters") < text.index("Why")
    assert "slc keeps serving. Over 3 windows the NLL differed by" in text
    assert "Diamonds: the served model on the window" in text


def test_every_figure_is_on_the_page_and_stored_as_a_file(page):
    text = page.read_text()
    assert text.count("<figure") == len(FIGURES) == text.count("<svg")
    assert {path.stem for path in (page.parent / "figures").iterdir()} == FIGURES


def test_the_page_has_all_sections(page):
    text = visible(page)
    for part in (
        "Why", "All methods on the newest window", "The series, window by window", "By observations per item",
        "By group", "Worst group", "Gained most", "Lost most", "Detectability of drift", "Data quality",
        "Provenance", "abc123", "def456", "0.1.0", "temperature", "3 quarantined",
        "AUC within user", "AUC within item", "rows of the same item are ranked alike by all",
    ):  # fmt: skip
        assert part in text, part


def test_the_page_states_that_slice_intervals_are_simultaneous(page, evidence):
    slices = evidence["backtest"]["slice_differences"]["slc"]
    assert len(slices) > 4
    expected = f"The intervals are simultaneous: with 95% confidence all {len(slices)} slices are"
    assert visible(page).count(expected) == 2  # beside items and beside groups


def test_items_show_predicted_and_observed_rates(page):
    rates = r"\d+%\s+\d+%\s+\d+%"
    assert re.search(
        rf"Gained most.*?{rates}\s+\+\d+\.\d\d\s.*Lost most.*?{rates}\s+−\d+\.\d\d\s", visible(page), re.S
    )


def test_names_from_the_logs_are_escaped(page):
    text = page.read_text()
    assert "<script" not in text
    assert "&lt;script&gt;alert" in text
    assert "<b>rows</b>" not in text
    assert "one &amp; only $class$" in text


def test_the_page_fetches_nothing(page):
    text = page.read_text()
    assert not re.findall(r"(?:src|href|url\()\s*=?\s*[\"']?(?!#|data:)(?:https?:)?//", text)
    references = re.findall(r"(?:src|href)=\"([^\"]*)\"", text)
    assert all(each.startswith(("#", "data:")) for each in references)
    assert "default-src 'none'" in text
    assert "<script" not in text


def test_ids_inside_the_figures_do_not_collide(page):
    ids = re.findall(r"<(?:clipPath|path|g|symbol|defs)[^>]* id=\"([^\"]+)\"", page.read_text())
    shared = [each for each in ids if re.search(r"[0-9a-f]{8,}", each)]
    assert len(shared) == len(set(shared))


def test_a_missing_number_is_a_dash_with_its_reason(page):
    text = visible(page)
    row = text[text.index("one &amp; only") :][:200]
    assert "–" in row
    assert "both classes" in row
    assert not re.search(r"\b(nan|None|inf)\b", text)


def test_colours_follow_the_readers_scheme(page):
    text = page.read_text()
    assert "prefers-color-scheme: dark" in text
    svg = "".join(re.findall(r"<svg.*?</svg>", text, flags=re.S))
    assert "var(--accent)" in svg
    assert "#0b7d6b" not in svg


@pytest.mark.slow
def test_the_same_evidence_gives_the_same_bytes(evidence, page, tmp_path):
    again = write_report(tmp_path / "report.html", **evidence)
    assert again.read_bytes() == page.read_bytes()
    for figure in (page.parent / "figures").iterdir():
        assert (tmp_path / "figures" / figure.name).read_bytes() == figure.read_bytes()


def test_missing_parts_are_reported(evidence, tmp_path):
    text = visible(
        write_report(tmp_path / "report.html", verdict=evidence["verdict"], backtest=evidence["backtest"])
    )
    assert "There is no detectability report for this run" in text
    assert "There is no validation result for this run" in text
    assert "not recorded" in text


def test_a_verdict_without_a_method_still_gives_a_page(evidence, tmp_path):
    result = Backtest.from_dict(evidence["backtest"])
    nothing = replace(result, entries=(), champion=Champion())
    verdict = decide(nothing, None, Decision(), renewal=None)
    text = visible(
        write_report(tmp_path / "report.html", verdict=verdict.as_dict(), backtest=nothing.as_dict())
    )
    assert verdict.kind == "none"
    assert "No window compares platt_eb with the frozen model" in text


def test_a_failed_method_and_an_unreadable_champion_are_explained(evidence, tmp_path):
    value = json.loads(json.dumps(evidence["backtest"]))
    newest = list(value["scores"])[-1]
    value["scores"][newest]["temperature"].update(
        metrics=None, error="it did not converge", slices=[], reliability=[]
    )
    for place in ("intervals", "differences", "slice_differences"):
        value[place].pop("temperature", None)
    value["champion"] = vars(Champion("unreadable", "version 3 is damaged", "3", "slc"))
    verdict = decide(Backtest.from_dict(value), None, Decision())
    page = tmp_path / "report.html"
    text = visible(write_report(page, verdict=verdict.as_dict(), backtest=value))
    assert "it did not converge" in text
    assert "Version 3 is damaged" in text
    assert (verdict.verdict, verdict.kind) == ("promote", "renewal")


def test_a_million_items_do_not_enlarge_the_page(tmp_path, page):
    rng = np.random.default_rng(0)
    n = np.round(rng.pareto(1.1, 1_000_000) * 5 + 1)
    items = pa.table(
        {
            "id": np.arange(n.size),
            "offset": rng.normal(size=n.size),
            "n_obs": n,
            "shrinkage": n / (n + 4),
        }
    )
    drawing = learned.draw_offsets(tmp_path, ParameterSet("slc", fit_link(), {"item": Effect(items)}))
    assert len(drawing.svg) < 200_000
    assert len(page.read_bytes()) < 1_000_000


def fit_link():
    from slc_ops.numerics.curves import Affine

    return Affine()


@pytest.mark.slow
def test_a_warm_start_is_mentioned_only_if_there_was_one(evidence, page, tmp_path):
    mean = PriorMean("gru-7", 1.0, 0.0123)
    ParameterSet.read(evidence["parameters"]).with_provenance(prior_mean=mean).write(tmp_path / "warm")
    warm = write_report(tmp_path / "report.html", **evidence | {"parameters": tmp_path / "warm"})
    assert mean.sentence in visible(warm)
    assert "Begins from" not in visible(page)
