"""``slc_ops.compare`` and ``slc_ops.detectability`` over frames."""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import slc_ops
from slc_ops.api.comparing import CompareWarning
from slc_ops.api.errors import BadOption, CannotFit, FrameError
from slc_ops.base.errors import SlcError
from slc_ops.cli import app
from tests.api.factory import KINDS, as_kind, frame

COLUMNS = {
    "item_id": "problem", "label": "correct", "logit": "score", "user_id": "student", "event_time": "when",
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_frame_gives_the_result_of_the_command(kind: str, tmp_path: Path) -> None:
    for name, seed in (("may", 0), ("june", 1)):
        frame(seed=seed).to_parquet(tmp_path / f"{name}.parquet")
    done = CliRunner().invoke(
        app,
        ["compare", "--calibration", str(tmp_path / "may.parquet"), "--test", str(tmp_path / "june.parquet")]
        + [f"--map={ours}={theirs}" for ours, theirs in COLUMNS.items()]
        + ["--methods", "platt,slc,slc_eb", "--json", "-"],
    )
    found = slc_ops.compare(
        as_kind(frame(), kind),
        as_kind(frame(seed=1), kind),
        columns=COLUMNS,
        methods=["platt", "slc", "slc_eb"],
    ).as_dict()
    expected = json.loads(done.stdout)
    for each in (*found["methods"].values(), *expected["methods"].values()):
        each.pop("seconds_fit")
    assert json.loads(json.dumps(found)) == expected


def test_the_result_renders_as_table_text_html_and_figure(tmp_path: Path) -> None:
    found = slc_ops.compare(frame(), frame(seed=1), columns=COLUMNS)
    table = found.to_pandas()
    assert table.loc["slc", "delta_auc"] == pytest.approx(table.loc["slc", "auc"] - table.loc["platt", "auc"])
    assert (
        table.loc["slc", "delta_auc_low"] < table.loc["slc", "delta_auc"] < table.loc["slc", "delta_auc_high"]
    )
    assert np.isnan(table.loc["platt", "delta_auc"])
    assert max(map(len, repr(found).splitlines())) <= 100
    assert "resample users" in repr(found)
    assert "<table>" in found._repr_html_()
    assert "<svg" in found.plot()._repr_html_()
    page = found.report(tmp_path / "x.html").read_text()
    assert "slc_eb" in page
    assert "<svg" in page
    assert "http" not in page.replace("http://www.w3.org", "").replace("http-equiv", "")
    assert found.report(tmp_path / "y.html").read_text() == page


def test_user_text_is_escaped() -> None:
    bad = frame().rename(columns={"score": "<script>"})
    bad["<script>"] = 1 / (1 + np.exp(-bad["<script>"]))
    columns = {**COLUMNS, "logit": "<script>"}
    with pytest.warns(CompareWarning, match="<script>"):
        found = slc_ops.compare(bad, bad.assign(when=bad["when"] + 10_000), columns=columns, methods=["slc"])
    assert "<script>" not in found._repr_html_()


def test_an_unfair_pair_warns_or_is_refused_if_strict() -> None:
    rows = frame()
    with pytest.warns(CompareWarning, match=r"'when'.*not later than"):
        slc_ops.compare(rows, rows, columns=COLUMNS, methods=["slc"])
    with pytest.raises(FrameError, match="calibration rows too"):
        slc_ops.compare(rows, rows, columns=COLUMNS, methods=["slc"], strict=True)


def test_invalid_frames_are_refused_by_name() -> None:
    with pytest.raises(FrameError, match="the test frame has no column problem to rename; it has"):
        slc_ops.compare(frame(), frame().drop(columns="problem"), columns=COLUMNS)
    with pytest.raises(FrameError, match=r"column 'correct' \(label\) of the calibration frame.*'yes'"):
        slc_ops.compare(frame().assign(correct="yes"), frame(), columns=COLUMNS)
    with pytest.raises(CannotFit, match="all 3000 labels that count are 1"):
        slc_ops.compare(frame().assign(correct=1), frame(seed=1), columns=COLUMNS, methods=["slc"])
    with pytest.raises(BadOption, match="no method 'slcc'"):
        slc_ops.compare(frame(), frame(seed=1), columns=COLUMNS, methods=["slcc"])


def test_detectability_gives_the_result_of_the_command(tmp_path: Path) -> None:
    frame().to_parquet(tmp_path / "rows.parquet")
    done = CliRunner().invoke(
        app,
        ["detectability", "--input", str(tmp_path / "rows.parquet"), "--json", "-"]
        + [f"--map={ours}={theirs}" for ours, theirs in COLUMNS.items()],
    )
    found = slc_ops.detectability(frame(), columns=COLUMNS)
    expected = json.loads(done.stdout)
    assert {name: expected[name] for name in found.as_dict()} == json.loads(json.dumps(found.as_dict()))
    assert found.table.num_rows == 30
    assert not found.viable
    assert "not viable" in repr(found)
    assert "<svg" in found.plot()._repr_html_()
    with pytest.raises(FrameError, match="event_time"):
        slc_ops.detectability(
            frame().drop(columns="when"), columns={"item_id": "problem", "label": "correct", "logit": "score"}
        )


def test_without_scipy_differences_remain_and_one_line_names_the_package_for_intervals(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("slc_ops.evidence.compare.find_spec", lambda name: None)
    found = slc_ops.compare(frame(), frame(seed=1), columns=COLUMNS, methods=["platt", "slc"])
    slc = found.differences["slc"].auc
    assert slc.estimate is not None
    assert (slc.low, slc.high) == (None, None)
    assert repr(found).count("slc-ops[report]") == 1
    assert "resample" not in repr(found)
    monkeypatch.setattr("slc_ops.base.extras.find_spec", lambda name: None)
    drift = slc_ops.detectability(frame(), columns=COLUMNS)
    for show in (found.plot, lambda: found.report("x.html"), drift.plot):
        with pytest.raises(SlcError, match=r"pip install 'slc-ops\[report\]'"):
            show()


def test_errors_name_python_arguments_instead_of_command_line_options() -> None:
    with pytest.raises(FrameError, match=r"rename with columns=\{'item_id': 'your_name'\}"):
        slc_ops.compare(frame(), frame(seed=1))


def test_a_single_method_may_be_given_as_a_string() -> None:
    found = slc_ops.compare(frame(), frame(seed=1), columns=COLUMNS, methods="slc")
    assert set(found.as_dict()["methods"]) == {"slc"}


def test_groups_are_part_of_every_form_of_the_result(tmp_path: Path) -> None:
    rows, later = (frame(seed=seed).assign(skill=lambda each: each["problem"].str[-1:]) for seed in (0, 1))
    found = slc_ops.compare(rows, later, columns=COLUMNS | {"group_id": "skill"}, methods=["platt", "slc_eb"])
    groups = found.groups.to_pandas().set_index(["group", "method"])
    each = groups.loc[groups.index[1]]
    assert each["delta_nll_low"] < each["delta_nll"] < each["delta_nll_high"]
    for shown in (repr(found), found._repr_html_(), found.report(tmp_path / "x.html").read_text()):
        assert "slc_eb minus platt by group" in shown
    assert max(map(len, repr(found).splitlines())) <= 100
    assert slc_ops.compare(rows, later, columns=COLUMNS, methods=["platt"]).groups is None
