"""The paper's analyses on a pair of files."""

import csv
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slc_ops.base.errors import InputError
from slc_ops.methods import METHODS
from slc_ops.methods.fitting.calibration import Calibration
from slc_ops.paper.analyses import analyse, means
from slc_ops.paper.page import as_csv, as_markdown, write_paper
from slc_ops.rows.interactions import InteractionLog, read_history
from tests.evidence.worlds import rows


@pytest.fixture(scope="module")
def pair():
    made = [rows(number, n=6000, items=120, bias_sd=0.9, seed=11) for number in (0, 1)]
    return [InteractionLog.from_table(table) for table in made]


@pytest.fixture(scope="module")
def tables(pair):
    return analyse(*pair)


def by(rows_, key):
    return {row[key]: row for row in rows_}


def test_every_analysis_is_included(tables):
    assert set(tables) == {
        "ladder", "over_time", "density", "calibration_fraction", "prior_variance", "link", "ridge",
        "detectability",
    }  # fmt: skip


def test_the_ladder_is_complete_and_invariant_where_it_must_be(tables):
    ladder = by(tables["ladder"], "method")
    assert set(ladder) == set(METHODS)
    assert ladder["platt"]["auc"] == pytest.approx(ladder["base"]["auc"], abs=1e-12)
    assert ladder["slc"]["auc"] > ladder["platt"]["auc"] + 0.02


def test_platt_equals_the_backbone_in_each_of_ten_slices_of_time_and_item_offsets_do_not(pair, tables):
    slices = tables["over_time"]
    assert [row["slice"] for row in slices] == [str(k + 1) for k in range(10)]
    assert sum(row["rows"] for row in slices) == pair[1].n_rows
    assert all(earlier["to"] < later["from"] for earlier, later in pairwise(slices))
    for row in slices:
        assert row["platt_auc"] == pytest.approx(row["base_auc"], abs=1e-12)
    assert np.mean([row["slc_auc"] - row["base_auc"] for row in slices]) > 0.02


def test_density_has_auc_nll_and_ece_of_every_slice(tables):
    for row in tables["density"]:
        assert row["delta_auc_low"] <= row["delta_auc"] <= row["delta_auc_high"]
        assert row["delta_nll_low"] <= row["delta_nll"] <= row["delta_nll_high"]
        assert isinstance(row["delta_ece"], float)


def test_a_history_sets_the_time_bins_of_slc_t_and_naive_only(pair, tables, tmp_path):
    """The bins of the ladder equal those of a fit with the same history."""
    early = np.linspace(pair[0].time.min() - 1e6, pair[0].time.min() - 1, 4000)
    pq.write_table(pa.table({"event_time": early}), tmp_path / "history.parquet")
    history = read_history(tmp_path / "history.parquet", {})
    found = by(analyse(*pair, history=history)["ladder"], "method")
    before = by(tables["ladder"], "method")
    moved = {name for name in found if found[name]["auc"] != before[name]["auc"]}
    assert moved == {"slc_t", "naive"}
    edges = Calibration(pair[0], history).time_edges
    assert edges[0] == early[0]
    assert np.sum(edges <= early[-1]) == pytest.approx(1 + 10 * 4000 / (4000 + pair[0].n_rows), abs=1)


def test_a_history_without_times_is_refused_by_name(tmp_path):
    pq.write_table(pa.table({"when": [1.0]}), tmp_path / "history.parquet")
    with pytest.raises(InputError, match=r"has no column event_time.*it has when"):
        read_history(tmp_path / "history.parquet", {})
    assert read_history(tmp_path / "history.parquet", {"event_time": "when"}).n_rows == 1


@pytest.mark.slow
def test_several_pairs_give_means_and_standard_deviations_of_matching_rows(tables, tmp_path):
    other = {name: [dict(row) for row in rows_] for name, rows_ in tables.items()}
    for row in other["ladder"]:
        row["auc"] += 0.02
    for row in other["density"]:
        row["observations"] = "other counts"
    found = means([tables, other])
    assert set(found) == set(tables)
    before = by(tables["ladder"], "method")
    for name, row in by(found["ladder"], "method").items():
        assert row["auc"] == pytest.approx(before[name]["auc"] + 0.01)
        assert row["auc_sd"] == pytest.approx(0.02 / np.sqrt(2))
        assert (row["pairs"], row["nll_sd"]) == (2, 0)
    assert [len(found[name]) for name in found] == [len(tables[name]) for name in tables]
    page = write_paper(tmp_path, found, "Two pairs").read_text()
    assert f"{before['slc']['auc'] + 0.01:.4f} ± 0.0141" in page


def test_slc_gains_over_platt_in_every_tercile_but_not_on_cold_start(tables):
    against_platt = [row for row in tables["density"] if row["against"] == "platt"]
    for row in against_platt:
        if not row["slice"].startswith("cold"):
            assert row["delta_auc_low"] > 0


def test_more_calibration_rows_help(tables):
    sweep = tables["calibration_fraction"]
    assert [row["value"] for row in sweep] == [0.1, 0.2, 0.5, 1.0]
    assert sweep[-1]["delta_auc"] > sweep[0]["delta_auc"]


def test_the_prior_variance_is_swept_with_both_backbones(tables):
    constant = [row for row in tables["prior_variance"] if row["backbone"] == "constant"]
    assert len(constant) == 7
    assert all(row["base_auc"] == 0.5 for row in constant)


def test_the_scaled_link_is_a_line_over_the_raw_score(tables):
    links = by(tables["link"], "link")
    scaled, raw = links["static, scaled a(η₀ + b) + b₀"], links["static, raw"]
    assert scaled["auc"] == pytest.approx(
        raw["auc"], abs=1e-9
    )  # increasing in η₀ + b, so the ranking is the same
    assert scaled["nll"] != pytest.approx(raw["nll"], abs=1e-6)
    assert scaled["nll"] != pytest.approx(links["static, offset-Platt (slc)"]["nll"], abs=1e-6)


def test_offset_platt_and_raw_links_have_the_same_ranking_and_ridge_is_close(tables):
    links = by(tables["link"], "link")
    assert links["static, raw"]["auc"] == pytest.approx(links["static, offset-Platt (slc)"]["auc"], abs=0.01)
    assert abs(tables["ridge"][0]["delta_auc"]) < 0.01


def test_analyses_that_need_times_are_left_out_without_them(pair):
    untimed = [InteractionLog.from_table(log.as_table().drop_columns("event_time")) for log in pair]
    found = analyse(*untimed)
    assert {"detectability", "over_time"}.isdisjoint(found)
    assert "slc_t" not in by(found["ladder"], "method")
    assert "tracked, raw" not in by(found["link"], "link")


@pytest.mark.slow
def test_tables_and_figures_are_written(tables, tmp_path):
    page = write_paper(tmp_path, tables, "Two files")
    for name, rows_ in tables.items():
        with (tmp_path / "tables" / f"{name}.csv").open() as stream:
            assert len(list(csv.DictReader(stream))) == len(rows_)
        assert (tmp_path / "tables" / f"{name}.md").read_text() in page.read_text()
    figures = {path.stem for path in (tmp_path / "figures").iterdir()}
    assert figures == {"over_time", "density", "calibration_fraction", "prior_variance"}
    title = "AUC and NLL by prior variance, SLC and the backbone"
    assert f"![{title}](figures/prior_variance.png)" in page.read_text()
    assert page.read_text().startswith("# Two files\n")


def test_a_missing_number_is_empty_in_csv_and_a_dash_in_tables():
    table = [{"method": "a|b", "auc": None}, {"method": "c", "auc": 0.25}]
    assert as_csv(table) == "method,auc\na|b,\nc,0.25\n"
    assert "| a\\|b | – |" in as_markdown(table)
