import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slc_ops.base.digests import digest_file
from slc_ops.base.errors import ParameterSetError, StorageError
from slc_ops.base.window import Window
from slc_ops.methods import METHODS, fit
from slc_ops.numerics.curves import Affine
from slc_ops.parameters.effects import Effect
from slc_ops.parameters.parameter_set import ParameterSet
from slc_ops.parameters.storage import signed
from slc_ops.rows.interactions import InteractionLog
from tests.methods.synthetic import log, table
from tests.registry.factory import parameter_set


@pytest.fixture
def written(tmp_path):
    fit("slc", log()).write(tmp_path / "set")
    return tmp_path / "set"


def change(directory, **values):
    """Change params.json and update its digest."""
    path = directory / "params.json"
    path.write_text(signed(json.dumps(json.loads(path.read_text()) | values)))


@pytest.mark.parametrize("method", METHODS)
def test_a_round_trip_keeps_every_probability(method, tmp_path):
    rows, later = log(), log(seed=8)
    first = fit(method, rows)
    first.write(tmp_path / "set")
    second = ParameterSet.read(tmp_path / "set")
    assert np.max(np.abs(first.apply(later) - second.apply(later))) <= 1e-15
    assert second.warnings == first.warnings
    assert second.prior_var == first.prior_var
    assert (second.items is None) == (first.items is None)


def test_the_files_follow_the_contract(written):
    assert sorted(path.name for path in written.iterdir()) == ["golden.json", "item.parquet", "params.json"]
    params = json.loads((written / "params.json").read_text())
    assert params["schema_version"] == 1
    assert params["method"] == "slc"
    assert {"a", "b0"} <= set(params["link"])
    columns = ["id", "offset", "offset_var", "n_obs", "fisher_weight", "shrinkage"]
    entry = params["effects"]["item"]
    assert list(params["effects"]) == ["item"]
    assert (entry["file"], entry["columns"], entry["rows"]) == ("item.parquet", columns, len(log().items))
    assert entry["digest"] == digest_file(written / "item.parquet")
    assert entry["prior_var"] == 1.0
    for name in (
        "deployment",
        "window",
        "logit_mean",
        "backbone_version",
        "code_version",
        "input_digest",
        "config_digest",
    ):
        assert name in params
    assert pq.read_schema(written / "item.parquet").names == columns


def test_score_only_methods_have_no_items(tmp_path):
    fit("platt", log()).write(tmp_path / "set")
    assert not (tmp_path / "set" / "item.parquet").exists()


def test_provenance_is_stored(tmp_path):
    window = Window.parse("2026-01-05/2026-01-12")
    known = fit("platt", log()).with_provenance(deployment="demo", window=window, input_digest="abc")
    known.with_provenance(code_version="1").write(tmp_path / "set")
    read = ParameterSet.read(tmp_path / "set").provenance
    assert (read.deployment, read.window, read.input_digest, read.code_version) == (
        "demo",
        window,
        "abc",
        "1",
    )


@pytest.mark.parametrize("method", METHODS)
def test_at_least_twenty_golden_vectors_include_cold_starts_and_extremes(method, tmp_path):
    rows = log()
    fit(method, rows).write(tmp_path / "set")
    vectors = json.loads((tmp_path / "set" / "golden.json").read_text())["vectors"]
    assert len(vectors) >= 20
    known = set(rows.items.to_pylist())
    assert {-700.0, 700.0} <= {vector["logit"] for vector in vectors if vector.get("item_id") not in known}
    refused = [vector for vector in vectors if vector["probability"] is None]
    assert [vector["time"] for vector in refused] == ([None] if method == "platt_time" else [])
    assert all(0 <= vector["probability"] <= 1 for vector in vectors if vector not in refused)


@pytest.mark.parametrize("ids", [[1, 2, 2], [2**63 - 1, -(2**63), 5], ["a", "b", "b"], ["", "ü", "\n"]])
def test_golden_vectors_include_an_unseen_item(ids, tmp_path):
    rows = InteractionLog.from_table(pa.table({"item_id": ids, "label": [0, 1, 1], "logit": [0.1, 0.2, 0.0]}))
    fit("slc", rows).write(tmp_path / "set")
    ParameterSet.read(tmp_path / "set")


@pytest.mark.parametrize("name", ["params.json", "item.parquet", "golden.json"])
def test_a_missing_file_is_refused_by_name(written, name):
    (written / name).unlink()
    with pytest.raises(ParameterSetError, match=name):
        ParameterSet.read(written)


@pytest.mark.parametrize("name", ["item.parquet", "golden.json"])
def test_an_altered_file_is_refused(written, name):
    path = written / name
    path.write_bytes(path.read_bytes()[:-1] + b" ")
    with pytest.raises(ParameterSetError, match=name):
        ParameterSet.read(written)


def test_an_altered_parameter_is_refused(written):
    path = written / "params.json"
    path.write_text(path.read_text().replace('"prior_var": 1.0', '"prior_var": 2.0'))
    with pytest.raises(ParameterSetError, match="was changed"):
        ParameterSet.read(written)


def test_an_unknown_schema_version_is_refused(written):
    change(written, schema_version=3)
    with pytest.raises(ParameterSetError, match="schema version 3"):
        ParameterSet.read(written)


def with_cold_line():
    return replace(fit("slc", log()), cold=Affine(0.8, -0.4))


def test_every_way_to_correct_uses_the_line_of_unknown_items(tmp_path):
    with_cold_line().write(tmp_path / "set")
    params = json.loads((tmp_path / "set" / "params.json").read_text())
    assert params["cold_link"] == {"kind": "affine", "a": 0.8, "b0": -0.4}
    second = ParameterSet.read(tmp_path / "set")
    logits = np.linspace(-40, 40, 17)
    expected = 1 / (1 + np.exp(-(0.8 * logits - 0.4)))
    ids = ["never seen"] * len(logits)
    assert second.correct(ids, logits) == pytest.approx(expected, abs=1e-12)
    assert [second.correct_one("never seen", each) for each in logits] == pytest.approx(expected, abs=1e-12)
    table = pa.table({"item_id": ids, "label": np.arange(17) % 2, "logit": logits})
    unseen = InteractionLog.from_table(table)
    assert second.apply(unseen) == pytest.approx(expected, abs=1e-12)
    score = second.on(unseen).score(unseen.rows(0, 17, frozenset()))
    assert (np.diff(score) > 0).all()
    known = log()
    assert np.array_equal(second.apply(known), fit("slc", known).apply(known))


def test_a_cold_line_is_in_the_golden_vectors(tmp_path):
    with_cold_line().write(tmp_path / "set")
    change(tmp_path / "set", cold_link={"kind": "affine", "a": 0.8, "b0": -0.3})
    with pytest.raises(ParameterSetError, match="golden vector"):
        ParameterSet.read(tmp_path / "set")


@pytest.mark.parametrize(
    "found", [{"kind": "isotonic", "x": [0.0, 1.0], "y": [0.0, 1.0]}, {"kind": "affine", "a": 0.8}]
)
def test_an_invalid_cold_line_is_refused(tmp_path, found):
    with_cold_line().write(tmp_path / "set")
    change(tmp_path / "set", cold_link=found)
    with pytest.raises(ParameterSetError, match=r"cannot be (understood|read)"):
        ParameterSet.read(tmp_path / "set")


def test_a_set_of_an_unknown_method_can_still_be_served(written):
    known = ParameterSet.read(written)
    change(written, method="slc_next")
    unknown = ParameterSet.read(written)
    assert unknown.method == "slc_next"
    assert np.array_equal(unknown.apply(log(seed=8)), known.apply(log(seed=8)))
    assert unknown.affine() == known.affine()
    assert unknown.affine() is not None


def test_parameters_that_fail_their_golden_vectors_are_refused(written):
    link = json.loads((written / "params.json").read_text())["link"]
    change(written, link=link | {"a": link["a"] + 1e-7})
    with pytest.raises(ParameterSetError, match="golden vector"):
        ParameterSet.read(written)


def test_a_difference_below_the_tolerance_is_accepted(written):
    link = json.loads((written / "params.json").read_text())["link"]
    change(written, link=link | {"b0": link["b0"] + 1e-11})
    ParameterSet.read(written)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema_version": 1}'])
def test_invalid_files_are_refused(written, text):
    (written / "params.json").write_text(text)
    with pytest.raises(ParameterSetError):
        ParameterSet.read(written)


def test_an_unknown_link_is_refused(written):
    change(written, link={"kind": "spline"})
    with pytest.raises(ParameterSetError, match="spline"):
        ParameterSet.read(written)


def test_nothing_is_pickled(written):
    for path in written.iterdir():
        assert not path.read_bytes().startswith(b"\x80")
        assert path.suffix in (".json", ".parquet")


def test_writing_again_replaces_the_directory(written):
    (written / "stray").write_text("old")
    fit("platt", InteractionLog.from_table(table())).write(written)
    assert sorted(path.name for path in written.iterdir()) == ["golden.json", "params.json"]


def test_a_directory_with_other_files_is_not_replaced_by_a_parameter_set(tmp_path):
    diary = tmp_path / "home" / "diary.txt"
    diary.parent.mkdir()
    diary.write_text("dear")
    with pytest.raises(ParameterSetError, match="would be lost"):
        parameter_set(diary.parent)
    assert diary.read_text() == "dear"


def test_a_file_is_not_replaced_by_a_parameter_set(tmp_path):
    rows = tmp_path / "rows.parquet"
    rows.write_text("rows")
    with pytest.raises(StorageError, match=r"rows\.parquet: it is a file"):
        parameter_set(rows)
    assert rows.read_text() == "rows"
    assert list(tmp_path.iterdir()) == [rows]


def test_a_parameter_set_and_an_empty_directory_are_replaced(tmp_path):
    (tmp_path / "set").mkdir()
    parameter_set(tmp_path / "set", seed=1)
    before = (tmp_path / "set" / "params.json").read_bytes()
    parameter_set(tmp_path / "set", seed=2)
    assert (tmp_path / "set" / "params.json").read_bytes() != before


def test_concurrent_writers_leave_one_complete_set_and_none_fails(tmp_path):
    parameters = fit("slc", log())

    def write(_):
        for _ in range(25):
            parameters.write(tmp_path / "set")

    with ThreadPoolExecutor(4) as writers:
        list(writers.map(write, range(4)))
    assert ParameterSet.read(tmp_path / "set").same_answers(parameters)


def test_other_files_are_not_replaced(tmp_path):
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(ParameterSetError, match="other files"):
        fit("slc", log()).write(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_set_partly_removed_by_another_writer_can_be_replaced(tmp_path):
    parameters = fit("slc", log())
    parameters.write(tmp_path / "set")
    (tmp_path / "set" / "params.json").unlink()
    parameters.write(tmp_path / "set")
    assert ParameterSet.read(tmp_path / "set").same_answers(parameters)


@pytest.mark.parametrize(
    "change",
    [
        {"link": Affine(1.0, 0.1)},
        {"cold": Affine(1.0, 0.0)},
        {"effects": {}},
        {"effects": {"item": Effect(fit("slc", log()).items, time_edges=np.array([0.0, 1.0]))}},
        {"effects": {**fit("slc", log()).effects, "group": Effect(pa.table({"id": ["a"], "offset": [0.1]}))}},
        {"logit_mean": 0.5},
        {"method": "platt"},
    ],
)
def test_sets_with_equal_parameters_count_as_equal(change):
    parameters = fit("slc", log())
    assert parameters.same_answers(replace(parameters, n_rows=7).with_provenance(deployment="other"))
    assert not parameters.same_answers(replace(parameters, **change))
    assert not replace(parameters, **change).same_answers(parameters)
