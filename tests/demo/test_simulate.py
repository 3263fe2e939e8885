"""The simulated lake: the same bytes for the same seed, and the stated bias."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from slc_ops.base.digests import digest_file
from slc_ops.base.errors import SettingsError
from slc_ops.demo.simulate import simulate

SMALL = {"rows_per_week": 300, "users": 40, "items": 15, "new_items": 2}


def digests(lake: Path) -> dict[str, str]:
    return {
        str(path.relative_to(lake)): digest_file(path) for path in sorted(lake.rglob("*")) if path.is_file()
    }


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    simulate(tmp_path / "a", weeks=3, **SMALL)
    simulate(tmp_path / "b", weeks=3, **SMALL)
    simulate(tmp_path / "c", weeks=3, seed=8, **SMALL)
    assert digests(tmp_path / "a") == digests(tmp_path / "b")
    assert digests(tmp_path / "a") != digests(tmp_path / "c")


def test_more_weeks_do_not_change_earlier_ones(tmp_path: Path) -> None:
    simulate(tmp_path / "a", weeks=2, **SMALL)
    before = digests(tmp_path / "a")
    manifest = simulate(tmp_path / "a", weeks=4, **SMALL)
    after = digests(tmp_path / "a")
    weeks = [name for name in before if name.startswith("week=")]
    assert len(weeks) == 2
    assert all(before[name] == after[name] for name in weeks)
    assert (manifest["weeks"], manifest["rows"], manifest["items"]) == (4, 1200, 15 + 3 * 2)


def test_new_items_appear_every_week_and_none_earlier(tmp_path: Path) -> None:
    simulate(tmp_path, weeks=3, **{**SMALL, "rows_per_week": 3000})
    truth = pq.read_table(tmp_path / "truth.parquet").to_pandas().set_index("item_id")
    for week, path in enumerate(sorted(tmp_path.glob("week=*/part-0.parquet"))):
        seen = set(pq.read_table(path)["item_id"].to_pylist())
        assert truth.loc[list(seen), "first_week"].max() == week


def test_the_backbone_has_the_stated_item_bias(tmp_path: Path) -> None:
    simulate(tmp_path, weeks=1, rows_per_week=200_000, items=20, drift_share=0, noise_sd=0)
    rows = pq.read_table(tmp_path / "week=2026-01-05" / "part-0.parquet").to_pandas()
    truth = pq.read_table(tmp_path / "truth.parquet").to_pandas().set_index("item_id")
    known = (rows["logit"] - 0.5) / 1.4  # the backbone's wrong scale and shift undone
    bias = truth["bias"].reindex(rows["item_id"]).to_numpy()
    rows["aware"] = rows["label"] - 1 / (1 + np.exp(-(known + bias)))
    rows["unaware"] = rows["label"] - 1 / (1 + np.exp(-known))
    often = rows.groupby("item_id").filter(lambda item: len(item) > 2000).groupby("item_id")
    assert often["aware"].mean().abs().max() < 0.03
    assert often["unaware"].mean().abs().max() > 0.1


def test_traffic_is_uneven(tmp_path: Path) -> None:
    simulate(tmp_path, weeks=1, rows_per_week=10_000, items=100)
    rows = pq.read_table(tmp_path / "week=2026-01-05" / "part-0.parquet").to_pandas()
    counts = rows["item_id"].value_counts()
    assert counts.iloc[:10].sum() > 3 * counts.iloc[-50:].sum()


def test_a_directory_with_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "letters.txt").write_text("mine")
    with pytest.raises(SettingsError, match=r"letters\.txt"):
        simulate(tmp_path, weeks=1, **SMALL)


def test_another_simulation_is_not_overwritten(tmp_path: Path) -> None:
    simulate(tmp_path, weeks=1, **SMALL)
    with pytest.raises(SettingsError, match="another simulation"):
        simulate(tmp_path, weeks=1, **{**SMALL, "seed": 9})


def test_an_interrupted_simulation_is_finished_by_the_next(tmp_path: Path) -> None:
    simulate(tmp_path / "whole", weeks=2, **SMALL)
    simulate(tmp_path / "half", weeks=2, **SMALL)
    (tmp_path / "half" / "manifest.json").unlink()
    (tmp_path / "half" / "week=2026-01-12" / "part-0.parquet").unlink()
    simulate(tmp_path / "half", weeks=2, **SMALL)
    assert digests(tmp_path / "half") == digests(tmp_path / "whole")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"start": "2026-01-06"}, "Monday"),
        ({"weeks": 0}, "at least 1 week"),
        ({"users": 0}, "users"),
        ({"drift_share": 1.5}, "drift_share"),
        ({"bias_sd": -1.0}, "bias_sd"),
    ],
)
def test_invalid_settings_are_refused(tmp_path: Path, settings: dict[str, object], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        simulate(tmp_path / "lake", **settings)  # type: ignore[arg-type]
    assert not (tmp_path / "lake").exists()
