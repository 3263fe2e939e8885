"""The paper's analyses on a pair of files."""

import csv

import pytest

from slc_ops.paper.analyses import analyse
from slc_ops.paper.page import as_csv, as_markdown, write_paper
from slc_ops.rows.interactions import InteractionLog
from tests.evidence.worlds import rows


@pytest.fixture(scope="module")
def pair():
    made = [rows(number, n=6000, items=120, bias_sd=0.9, seed=11) for number in (0, 1)]
    return [InteractionLog.from_table(table) for table in made]


@pytest.fixture(scope="module")
def tables(pair):
    return analyse(*pair, regime=False)


def by(rows_, key):
    return {row[key]: row for row in rows_}


def test_every_analysis_is_there(tables):
    assert set(tables) == {
        "ladder", "density", "calibration_fraction", "prior_variance", "link", "ridge", "detectability",
    }  # fmt: skip


def test_the_ladder_is_complete_and_invariant_where_it_must_be(tables):
    ladder = by(tables["ladder"], "method")
    assert len(ladder) == 14
    assert ladder["platt"]["auc"] == pytest.approx(ladder["base"]["auc"], abs=1e-12)
    assert ladder["slc"]["auc"] > ladder["platt"]["auc"] + 0.02


def test_slc_gains_over_platt_in_every_tercile_and_nothing_on_cold_start(tables):
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


def test_offset_platt_and_raw_links_rank_alike_and_ridge_is_close(tables):
    links = by(tables["link"], "link")
    assert links["static, raw"]["auc"] == pytest.approx(links["static, offset-Platt (slc)"]["auc"], abs=0.01)
    assert abs(tables["ridge"][0]["delta_auc"]) < 0.01


def test_files_without_time_leave_out_what_needs_one(pair):
    untimed = [InteractionLog.from_table(log.as_table().drop_columns("event_time")) for log in pair]
    found = analyse(*untimed, regime=False)
    assert "detectability" not in found
    assert "slc_t" not in by(found["ladder"], "method")
    assert "tracked, raw" not in by(found["link"], "link")


def test_tables_and_figures_are_written(tables, tmp_path):
    page = write_paper(tmp_path, tables)
    for name, rows_ in tables.items():
        with (tmp_path / "tables" / f"{name}.csv").open() as stream:
            assert len(list(csv.DictReader(stream))) == len(rows_)
        assert (tmp_path / "tables" / f"{name}.md").read_text() in page.read_text()
    figures = {path.stem for path in (tmp_path / "figures").iterdir()}
    assert figures == {"density", "calibration_fraction", "prior_variance"}
    assert "![Prior-variance sweep](figures/prior_variance.png)" in page.read_text()


def test_a_missing_number_is_empty_in_csv_and_a_dash_for_people():
    table = [{"method": "a|b", "auc": None}, {"method": "c", "auc": 0.25}]
    assert as_csv(table) == "method,auc\na|b,\nc,0.25\n"
    assert "| a\\|b | – |" in as_markdown(table)
