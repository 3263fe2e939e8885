"""Both controls on real data through their DAGs, as they run monthly."""

import runpy
from pathlib import Path
from typing import Any

import pytest

from slc_ops.base.files import read_json
from slc_ops.controls.datasets import DataNotAvailable, movielens_100k
from slc_ops.settings.environment import Installation
from tests.airflow.runs import run

pytestmark = [pytest.mark.services, pytest.mark.usefixtures("metadata")]

DAGS = Path(__file__).parents[2] / "dags"


def dag(name: str) -> Any:
    return runpy.run_path(str(DAGS / "slc_controls.py"))[name]


def verdict(installation: Installation, control: str) -> dict[str, Any]:
    found: dict[str, Any] = read_json(installation.home / "controls" / control / "verdict.json")
    return found


def gains(found: dict[str, Any], role: str, end: str) -> list[float]:
    return [gain[end] for arm in found["arms"] if arm["role"] == role for gain in arm["gains"].values()]


def test_the_positive_control_passes(installation: Installation) -> None:
    state, tasks = run(dag("control_flight_delay"))
    assert state == "success", tasks
    found = verdict(installation, "flight-delay")
    assert found["passed"]
    assert len(found["arms"]) == 7
    assert min(gains(found, "positive", "low")) > 0
    for arm in found["arms"]:
        assert abs(arm["auc"]["platt"] - arm["auc"]["base"]) <= 1e-12
    assert [arm["ahead"] for arm in found["arms"] if arm["role"] == "turning"] == [[]]
    assert set(found["replays"]) == {"bba-seed0-year", "bbb-seed0-year"}
    for replay in found["replays"].values():
        against = replay["against"]
        assert against["platt"]["served"]["mean"] <= 0.8 * against["platt"]["slc_eb"]["mean"] < 0
        assert against["base"]["served"]["mean"] < 0


def test_the_negative_control_passes(installation: Installation) -> None:
    try:
        movielens_100k(installation.home / "controls" / "movielens" / "data")
    except DataNotAvailable as reason:
        pytest.skip(str(reason))
    state, tasks = run(dag("control_movielens"))
    assert state == "success", tasks
    found = verdict(installation, "movielens")
    assert found["passed"]
    assert max(gains(found, "negative", "high")) < 0.005
    assert min(gains(found, "contrast", "low")) > 0.05
    assert all(arm["ahead"] for arm in found["arms"] if arm["role"] == "contrast")


def test_a_broken_decision_fails_the_dag(
    installation: Installation, ratings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import shutil

    monkeypatch.setenv("SLC_OPS_HOME", str(tmp_path))
    monkeypatch.setattr("slc_ops.controls.verdict.is_ahead", lambda entries, method: False)
    shutil.copytree(ratings, tmp_path / "data" / "small")
    state, tasks = run(dag("control_movielens"), data="small", backbone="mf", seed=0)
    assert state == "failed"
    assert tasks["check"] == "failed"
    assert tasks["refresh_arm[0]"] == "success"


def test_without_data_the_dag_reports_it_and_skips(
    installation: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from slc_ops.controls import datasets

    monkeypatch.setenv("SLC_OPS_HOME", str(tmp_path))
    monkeypatch.setattr(datasets, "REQUIREMENT", "no-such-package==9.9 --hash=sha256:" + "0" * 64)
    _, tasks = run(dag("control_movielens"))
    assert {task.split("[")[0]: state for task, state in tasks.items()} == {
        "prepare": "skipped",
        "refresh_arm": "skipped",
        "check": "skipped",
    }
