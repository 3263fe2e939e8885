"""The study in performance.md, from a published file to a refreshed deployment, on a small file of that
format.
"""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="PyTorch is not installed; scripts/install_study.sh adds the extra study")

from tests.pages import run
from tests.paper.published_files import assistments2017
from tests.study.learners import learners

MONDAY, WEEK = 1_104_710_400, 7 * 86_400  # 2005-01-03 00:00 UTC


@pytest.mark.slow
def test_the_page_leads_from_a_published_file_to_a_refresh(tmp_path: Path) -> None:
    table = learners(students=60, rows=120)
    user, index = table["user_id"].to_numpy(), table["event_time"].to_numpy()
    start = MONDAY + (index * 13 * WEEK) // 120 + user  # thirteen weeks, the students a second apart
    columns = (table[name].to_pylist() for name in ("item_id", "label", "group_id"))
    rows = [
        (number, int(who), item, int(when), label, f"skill {skill}")
        for number, (who, when, item, label, skill) in enumerate(zip(user, start, *columns, strict=True))
    ]
    assistments2017(tmp_path / "published.csv", rows)
    assert run("docs/performance.md#Repeat the study", tmp_path) == 7
    assert (tmp_path / "study" / "figures" / "density.png").exists()
    assert np.any([path.suffix == ".html" for path in (tmp_path / "slc").rglob("*")])
