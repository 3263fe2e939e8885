import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from slc_ops import cli
from slc_ops.methods import METHODS, fit
from slc_ops.parameters import IN_MODEL
from slc_ops.parameters.parameter_set import ParameterSet
from slc_ops.rows.interactions import InteractionLog
from tests.methods.synthetic import table


@pytest.fixture
def files(tmp_path):
    for name, seed in (("calibration", 0), ("test", 1)):
        rows = table(seed=seed)
        later = rows["event_time"].to_numpy() + 500 * seed
        pq.write_table(rows.set_column(0, "event_time", [later]), tmp_path / f"{name}.parquet")
    return tmp_path


def run(*arguments):
    return CliRunner().invoke(cli.app, [str(a) for a in arguments], catch_exceptions=False)


def pair(files):
    return ["--calibration", files / "calibration.parquet", "--test", files / "test.parquet"]


def ends_with_two(monkeypatch, capsys, *arguments):
    """The output and exit code of the installed command on invalid input."""
    monkeypatch.setattr("sys.argv", ["slc-ops", *map(str, arguments)])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    message = capsys.readouterr().err.strip()
    assert caught.value.code == 2
    assert "Traceback" not in message
    assert len(message.splitlines()) == 1
    return message


def test_fit_writes_a_parameter_set(files):
    result = run(
        "fit",
        "--input",
        files / "calibration.parquet",
        "--method",
        "slc",
        "--out",
        files / "set",
        "--json",
        "-",
    )
    answer = json.loads(result.output)
    assert answer["method"] == "slc"
    read = ParameterSet.read(files / "set")
    log = InteractionLog.read(files / "calibration.parquet")
    assert np.array_equal(read.apply(log), fit("slc", log).apply(log))
    assert read.provenance.input_digest == log.digest()
    assert read.provenance.code_version


def test_user_effects_are_learned_only_if_named(files):
    table = pq.read_table(files / "calibration.parquet")
    off = np.random.default_rng(3).normal(0, 1.5, 60)[table["user_id"].to_numpy()]
    chance = 1 / (1 + np.exp(-(table["logit"].to_numpy() + off)))
    label = pa.array((np.random.default_rng(4).random(table.num_rows) < chance).astype(np.int8))
    pq.write_table(
        table.set_column(table.column_names.index("label"), "label", label), files / "users.parquet"
    )
    asked = ["fit", "--input", files / "users.parquet", "--method", "slc_mix", "--out", files / "set"]
    for extra, users in (([], False), (["--effects", "item, user"], True)):
        assert run(*asked, *extra).exit_code == 0
        assert ("user" in ParameterSet.read(files / "set").effects) is users
    answer = json.loads(
        run("compare", *pair(files), "--methods", "slc_mix", "--effects", "item", "--json", "-").output
    )
    assert list(answer["methods"]) == ["slc_mix"]


def test_apply_adds_the_corrected_probability(files):
    run("fit", "--input", files / "calibration.parquet", "--method", "slc_t", "--out", files / "set")
    result = run(
        "apply",
        "--params",
        files / "set",
        "--input",
        files / "test.parquet",
        "--output",
        files / "out.parquet",
    )
    assert result.exit_code == 0
    assert "3,000 rows" in result.output
    corrected = pq.read_table(files / "out.parquet")["p_corrected"].to_numpy()
    log = InteractionLog.read(files / "test.parquet")
    assert np.array_equal(corrected, ParameterSet.read(files / "set").apply(log))


def test_compare_returns_the_json_of_the_contract(files):
    answer = json.loads(run("compare", *pair(files), "--json", "-").output)
    assert set(answer) >= {"n_calibration", "n_test", "n_items", "cold_start_share", "methods"}
    assert list(answer["methods"]) == list(METHODS)
    for scored in answer["methods"].values():
        assert set(scored) >= {"auc", "nll", "ece", "brier", "seconds_fit", "link", "warnings"}
    assert answer["differences"] == {"against": "platt", "clusters": "users"}
    slc, platt = answer["methods"]["slc"], answer["methods"]["platt"]
    assert "against_platt" not in platt
    assert slc["against_platt"]["auc"]["estimate"] == pytest.approx(slc["auc"] - platt["auc"])
    assert (
        slc["against_platt"]["auc"]["low"] < slc["auc"] - platt["auc"] < slc["against_platt"]["auc"]["high"]
    )
    assert answer["findings"] == answer["warnings"] == []


def test_compare_fits_80_columns_and_names_the_reference_of_differences(files, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    result = run("compare", *pair(files))
    assert max(len(line) for line in result.stdout.splitlines()) <= 80
    assert "minus platt on the same rows, with 95 % intervals that resample users" in result.stdout
    assert "…" not in result.stdout


def test_compare_without_users_resamples_rows_and_reports_it(files):
    for name in ("calibration", "test"):
        path = files / f"{name}.parquet"
        pq.write_table(pq.read_table(path).drop_columns(["user_id"]), path)
    answer = json.loads(run("compare", *pair(files), "--methods", "slc", "--json", "-").stdout)
    assert answer["differences"] == {"against": "platt", "clusters": "rows"}
    assert list(answer["methods"]) == ["slc"]
    assert "resample rows" in run("compare", *pair(files), "--methods", "slc").stdout


def test_an_unfair_pair_gives_a_warning_or_exit_code_2_with_strict(files, monkeypatch, capsys):
    swapped = ["--calibration", files / "test.parquet", "--test", files / "calibration.parquet"]
    result = run("compare", *swapped, "--methods", "slc")
    assert result.exit_code == 0
    assert "warning: column 'event_time': all 3,000 test rows are earlier" in result.stderr
    message = ends_with_two(monkeypatch, capsys, "compare", *swapped, "--methods", "slc", "--strict")
    assert "are the two files swapped?" in message
    assert run("compare", *pair(files), "--methods", "slc", "--strict").exit_code == 0


def test_compare_shows_a_table_of_the_chosen_methods(files):
    result = run("compare", *pair(files), "--methods", "platt, slc")
    assert result.exit_code == 0
    assert "slc" in result.output
    assert "ridge" not in result.output


@pytest.mark.parametrize(
    ("what", "values"), [("prior-variance", "0.1,1,10"), ("calibration-fraction", "0.2,1")]
)
def test_sweep_returns_one_row_per_value(files, what, values):
    answer = json.loads(run("sweep", what, *pair(files), "--values", values, "--json", "-").output)
    assert [row["value"] for row in answer["rows"]] == [float(value) for value in values.split(",")]
    assert all({"auc", "nll"} <= set(row) for row in answer["rows"])


def test_sweep_with_a_constant_backbone_starts_at_an_auc_of_one_half(files):
    answer = json.loads(
        run("sweep", "prior-variance", *pair(files), "--constant-backbone", "--json", "-").output
    )
    assert all(row["base_auc"] == 0.5 for row in answer["rows"])
    assert len(answer["rows"]) == 7


def test_input_columns_can_be_renamed(files):
    for name in ("calibration", "test"):
        path = files / f"{name}.parquet"
        pq.write_table(
            pq.read_table(path).rename_columns(["event_time", "user_id", "pid", "y", "logit"]), path
        )
    result = run("compare", *pair(files), "--map", "item_id=pid", "--map", "label=y", "--methods", "slc")
    assert result.exit_code == 0


def test_warnings_go_to_the_error_stream(files):
    turned = pq.read_table(files / "calibration.parquet")
    turned = turned.set_column(3, "label", [1 - turned["label"].to_numpy()])
    pq.write_table(turned, files / "calibration.parquet")
    result = run("compare", *pair(files), "--methods", "platt", "--json", "-")
    assert "negative slope" in result.stderr
    assert "negative slope" in json.loads(result.stdout)["methods"]["platt"]["warnings"][0]


BAD = [
    (["--method", "plat"], "no method 'plat'"),
    (["--method", "slc", "--prior-var", "0"], "prior_var is 0"),
    (["--method", "slc", "--time-bins", "1"], "time_bins is 1"),
    (["--method", "slc_mix", "--effects", "item,skill"], "effects has 'skill'"),
    (["--method", "slc_mix", "--effects", "group"], "item must be among them"),
    (["--method", "slc", "--map", "item_id"], "not NAME=COLUMN"),
    (["--method", "slc", "--map", "item_id=pid"], "no column pid"),
    (["--method", "slc", "--history", "nowhere.parquet"], "does not exist"),
    ([], "method"),
]


@pytest.mark.parametrize(("extra", "message"), BAD)
def test_invalid_usage_gives_one_line_and_exit_code_2(files, monkeypatch, capsys, extra, message):
    base = ["fit", "--input", files / "calibration.parquet", "--out", files / "set"]
    assert message in ends_with_two(monkeypatch, capsys, *base, *extra)
    assert not (files / "set").exists()


def test_invalid_rows_give_exit_code_2_and_name_the_column(files, monkeypatch, capsys):
    rows = pq.read_table(files / "calibration.parquet")
    logit = rows["logit"].to_numpy().copy()
    logit[7] = np.nan
    pq.write_table(rows.set_column(4, "logit", [logit]), files / "calibration.parquet")
    message = ends_with_two(monkeypatch, capsys, "compare", *pair(files))
    assert "'logit'" in message
    assert "1 row" in message
    assert "row 7" in message


def test_labels_of_one_class_give_exit_code_2(files, monkeypatch, capsys):
    rows = pq.read_table(files / "calibration.parquet")
    pq.write_table(rows.set_column(3, "label", [np.ones(rows.num_rows, int)]), files / "calibration.parquet")
    assert "both classes" in ends_with_two(monkeypatch, capsys, "compare", *pair(files))


def test_a_broken_parameter_set_gives_exit_code_2(files, monkeypatch, capsys):
    message = ends_with_two(
        monkeypatch,
        capsys,
        "apply",
        "--params",
        files,
        "--input",
        files / "test.parquet",
        "--output",
        files / "o.csv",
    )
    assert "params.json is missing" in message


def test_mixed_backbone_versions_are_refused(files, monkeypatch, capsys):
    rows = pq.read_table(files / "calibration.parquet")
    mixed = rows.append_column("backbone_version", [["1", "2"] * (rows.num_rows // 2)])
    pq.write_table(mixed, files / "calibration.parquet")
    arguments = ["fit", "--input", files / "calibration.parquet", "--method", "slc", "--out", files / "set"]
    assert "mixes the backbone versions 1, 2" in ends_with_two(monkeypatch, capsys, *arguments)


@pytest.mark.slow
@pytest.mark.parametrize("reference", ["models:/slc-demo@champion", "models:/slc-demo/1"])
def test_apply_reads_a_registered_model(files, tmp_path, monkeypatch, reference):
    import mlflow
    from mlflow import MlflowClient

    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setenv("SLC_OPS_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "home" / "mlflow").mkdir(parents=True)
    uri = f"sqlite:///{tmp_path}/home/mlflow/mlflow.db"
    before = mlflow.get_registry_uri()
    log = InteractionLog.read(files / "calibration.parquet")
    fit("slc", log).write(tmp_path / "model" / IN_MODEL)
    client = MlflowClient(uri, uri)
    experiment = client.create_experiment("apply", (tmp_path / "runs").as_uri())
    active = client.create_run(experiment)
    client.log_artifacts(active.info.run_id, str(tmp_path / "model"), "model")
    client.create_registered_model("slc-demo")
    source = f"{active.info.artifact_uri}/model"
    version = client.create_model_version("slc-demo", source, active.info.run_id)
    client.set_registered_model_alias("slc-demo", "champion", version.version)
    out = tmp_path / "out.parquet"
    result = run("apply", "--params", reference, "--input", files / "test.parquet", "--output", out)
    assert result.exit_code == 0
    assert mlflow.get_registry_uri() == before, "reading a model moved the process's own registry"
    assert not (tmp_path / "mlflow.db").exists()
    test = InteractionLog.read(files / "test.parquet")
    assert np.array_equal(pq.read_table(out)["p_corrected"].to_numpy(), fit("slc", log).apply(test))


def test_a_history_needs_only_times(files):
    """Only the times of earlier rows are used: a file without other columns gives the same bins."""
    earlier = table(seed=2)
    pq.write_table(earlier, files / "whole.parquet")
    pq.write_table(earlier.select(["event_time"]), files / "times.parquet")
    edges = []
    for name in ("whole", "times"):
        arguments = ["--method", "slc_t", "--history", files / f"{name}.parquet", "--out", files / name]
        assert run("fit", "--input", files / "calibration.parquet", *arguments).exit_code == 0
        edges.append((files / name / "item.parquet").read_bytes())
        compared = run("compare", *pair(files), "--methods", "slc_t", "--history", files / f"{name}.parquet")
        assert compared.exit_code == 0
    assert edges[0] == edges[1]
