"""Backbones trained on simulated learners with known probabilities."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("torch", reason="PyTorch is not installed; scripts/install_study.sh adds the extra study")

from slc_ops.base.errors import DamagedFile, SettingsError, StorageError
from slc_ops.evidence.auc import auc
from slc_ops.paper.datasets.backbone import backbone_logits
from slc_ops.study.page import write_study
from slc_ops.study.registry import BACKBONES, Backbone
from slc_ops.study.run import Study, study
from slc_ops.study.sequences import CHOICE, TEST, sequences_of
from slc_ops.study.trainer import Settings, train
from tests.registry.factory import no_file_above
from tests.study.learners import dealt, learners

SMALL: dict[str, dict[str, Any]] = {
    "dkt": {"width": 32, "batch": 8, "rate": 1e-2, "epochs": 10},
    "sakt": {"width": 32, "rate": 3e-3, "batch": 16, "epochs": 12},
    "dkvmn": {"width": 32, "batch": 16, "epochs": 10},
    "akt": {"width": 32, "rate": 3e-3, "batch": 16, "epochs": 8},
    "lpkt": {"batch": 16, "rate": 6e-3, "epochs": 10},
}
ITEMS = ("akt", "lpkt")
MARGIN = 0.02
"""Points of AUC over the skill-count model that each backbone must have."""
DISTANCE = {"dkt": 0.19, "sakt": 0.17, "dkvmn": 0.17, "akt": 0.12, "lpkt": 0.12}
"""Mean distance from the true probabilities at most; those that do not see items cannot come closer."""
LOG = learners()


def small(name: str, **more: Any) -> Backbone:
    return replace(BACKBONES[name], length=100, patience=3, **{**SMALL[name], **more})


def probabilities(logit: Any) -> Any:
    return 1 / (1 + np.exp(-np.asarray(logit)))


def area(table: pa.Table, logit: Any) -> float:
    found = auc(table["label"].to_numpy().astype(np.int8), np.asarray(logit)).value
    assert found is not None
    return found


def of_test(table: pa.Table) -> tuple[pa.Table, float]:
    """The test rows of a log, and the skill-count model's AUC on them."""
    sequences = sequences_of(table)
    named = {name: sequences.rows[name] for name in ("user_id", "label")}
    named["group_id"] = sequences.rows["group_id"].cast(pa.string())
    logit = backbone_logits(pa.table(named), sequences.part <= CHOICE)
    chosen = np.flatnonzero(sequences.part == TEST)
    rows = sequences.rows.take(pa.array(chosen))
    return rows, area(rows, logit[chosen])


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Study, Path]:
    folder = tmp_path_factory.mktemp("study")
    pq.write_table(LOG, folder / "log.parquet")
    backbones = [small(name) for name in SMALL]
    found = study(folder / "log.parquet", folder / "out", backbones, [225], Settings())
    return found, folder / "out"


@pytest.fixture(scope="module")
def control(tmp_path_factory: pytest.TempPathFactory) -> tuple[pa.Table, dict[str, Any]]:
    """The test rows with all rows assigned to students at random, and the backbones' logits of them."""
    folder, table = tmp_path_factory.mktemp("control"), dealt(LOG)
    sequences = sequences_of(table)
    found = {}
    for name in SMALL:
        (folder / name).mkdir()
        fitted = train(sequences, small(name, epochs=3), 225, Settings(), folder / name, lambda text: None)
        found[name] = fitted.logit[sequences.part == TEST]
    return sequences.rows.filter(pa.array(sequences.part == TEST)), found


def logits(out: Path, name: str) -> Any:
    return pq.read_table(out / f"{name}-225" / "test.parquet")["logit"].to_numpy()


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SMALL))
def test_a_backbone_beats_the_skill_count_model_and_is_near_the_truth(
    trained: tuple[Study, Path], name: str
) -> None:
    rows, counts = of_test(LOG)
    logit = logits(trained[1], name)
    assert area(rows, logit) > counts + MARGIN
    assert np.abs(probabilities(logit) - rows["truth"].to_numpy()).mean() < DISTANCE[name]


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SMALL))
def test_without_informative_sequences_there_is_no_gain(
    trained: tuple[Study, Path], control: tuple[pa.Table, dict[str, Any]], name: str
) -> None:
    rows, found = control
    _, counts = of_test(dealt(LOG))
    if name not in ITEMS:  # backbones with items still use their difficulties
        assert area(rows, found[name]) < counts + MARGIN
    assert area(rows, found[name]) < area(of_test(LOG)[0], logits(trained[1], name)) - 0.1


@pytest.mark.slow
def test_slc_corrects_items_that_a_backbone_does_not_use(trained: tuple[Study, Path]) -> None:
    gain = {}
    for run in trained[0].runs:
        found = {row["method"]: row["auc"] for row in run.tables["ladder"]}
        gain[run.backbone] = found["slc"] - found["platt"]
    assert min(gain[name] for name in gain if name not in ITEMS) > max(gain[name] for name in ITEMS) + 0.01


@pytest.mark.slow
def test_all_five_train_within_90_seconds_of_cpu_together(trained: tuple[Study, Path]) -> None:
    assert [run.backbone for run in trained[0].runs] == ["dkt", "sakt", "dkvmn", "akt", "lpkt"]
    assert sum(run.training["cpu_minutes"] for run in trained[0].runs) < 1.5


@pytest.mark.slow
def test_logits_are_written_in_the_logs_contract(trained: tuple[Study, Path]) -> None:
    table = pq.read_table(trained[1] / "dkt-225" / "calibration.parquet")
    assert set(table.column_names) == {
        "event_time", "user_id", "item_id", "label", "group_id", "logit", "backbone_version",
    }  # fmt: skip
    assert table["backbone_version"].unique().to_pylist()[0].startswith("dkt-225-")
    assert np.isfinite(table["logit"].to_numpy()).all()
    assert table.num_rows == 4000


@pytest.mark.slow
def test_a_finished_run_is_not_trained_again_and_the_report_is_complete(trained: tuple[Study, Path]) -> None:
    _, out = trained
    reported: list[str] = []
    log = out.parent / "log.parquet"
    found = study(log, out, [small("dkt")], [225], Settings(), tell=reported.append)
    assert "dkt seed 225 is finished" in reported
    assert not [text for text in reported if "epoch" in text]
    assert len(found.runs) == 5
    page = write_study(out, replace(found, dataset="assistments2017"))
    text = page.read_text()
    assert "| slc |" in text
    assert "(0.7325)" in text  # the paper's figure next to ours
    for name in ("auc", "nll", "density", "link", "training", "gain"):
        assert {(out / "tables" / f"{name}.{kind}").exists() for kind in ("csv", "md", "tex")} == {True}
    assert (out / "figures" / "over_time.png").exists()
    assert (out / "figures" / "density.png").exists()
    assert "scaled" in (out / "tables" / "link.md").read_text()


class Stop(Exception):
    pass


def few(tmp_path: Path, name: str = "run", backbone: Backbone | None = None, after: int | None = None) -> Any:
    """Train a small DKT on thirty students; stop after so many epochs."""
    epochs = []

    def tell(text: str) -> None:
        epochs.append(text)
        if after is not None and len([each for each in epochs if "loss" in each]) == after:
            raise Stop

    folder = tmp_path / name
    folder.mkdir(exist_ok=True)
    backbone = backbone or small("dkt", epochs=3, width=8)
    return train(sequences_of(learners(30, 40)), backbone, 7, Settings(), folder, tell)


@pytest.mark.parametrize("after", [1, 2, 4])
def test_an_interrupted_run_resumes_to_the_same_result(tmp_path: Path, after: int) -> None:
    whole = few(tmp_path, "whole")
    assert len(whole.epochs) > 4
    with pytest.raises(Stop):
        few(tmp_path, "parts", after=after)
    resumed = few(tmp_path, "parts")
    assert np.array_equal(whole.logit, resumed.logit, equal_nan=True)
    assert [each["loss"] for each in whole.epochs] == [each["loss"] for each in resumed.epochs]


def test_the_seed_determines_the_numbers(tmp_path: Path) -> None:
    first, second = few(tmp_path, "a"), few(tmp_path, "b")
    assert np.array_equal(first.logit, second.logit, equal_nan=True)
    sequences = sequences_of(learners(30, 40))
    (tmp_path / "c").mkdir()
    backbone = small("dkt", epochs=3, width=8)
    other = train(sequences, backbone, 8, Settings(), tmp_path / "c", lambda text: None)
    assert not np.array_equal(first.logit, other.logit, equal_nan=True)


def test_the_authors_selection_of_the_epoch_uses_calibration_rows(tmp_path: Path) -> None:
    sequences, backbone = sequences_of(learners(30, 40)), small("dkt", epochs=4, width=8)
    found = train(sequences, backbone, 7, Settings("calibration"), tmp_path, lambda text: None)
    assert found.chosen == 1 + int(np.argmax([each["auc"] for each in found.epochs]))
    assert not (tmp_path / "choice.pt").exists()


def test_a_checkpoint_of_other_sizes_is_refused(tmp_path: Path) -> None:
    few(tmp_path)
    with pytest.raises(SettingsError, match="other data, sizes or settings; give another --out"):
        few(tmp_path, backbone=small("dkt", epochs=3, width=16))


def test_a_damaged_checkpoint_is_refused(tmp_path: Path) -> None:
    few(tmp_path)
    (tmp_path / "run" / "choice.pt").write_bytes(b"PK not a checkpoint")
    with pytest.raises(DamagedFile, match="remove it to begin again"):
        few(tmp_path)


def test_a_full_disk_gives_one_line_and_the_run_can_be_resumed(tmp_path: Path) -> None:
    pq.write_table(learners(30, 40), tmp_path / "log.parquet")
    arguments = (
        tmp_path / "log.parquet",
        tmp_path / "out",
        [small("dkt", epochs=2, width=32)],
        [1],
        Settings(),
    )
    study(tmp_path / "log.parquet", tmp_path / "other", [small("dkt", epochs=2, width=32)], [1], Settings())
    with no_file_above(30_000), pytest.raises(StorageError, match="free space"):
        study(*arguments)
    again = study(*arguments)
    logit = [pq.read_table(tmp_path / name / "dkt-1" / "test.parquet")["logit"] for name in ("out", "other")]
    assert logit[0].equals(logit[1])
    assert len(again.runs) == 1
