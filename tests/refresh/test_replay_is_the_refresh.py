"""A replay equals consecutive refreshes: verdicts, champions, parameter bytes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import Phase, given, note, settings
from hypothesis import strategies as st

from slc_ops.base.errors import SelfTestFailed, ValidationStopped
from slc_ops.base.files import read_json
from slc_ops.base.window import Window
from slc_ops.demo.simulate import simulate
from slc_ops.refresh import pipeline
from slc_ops.refresh.backfill import promote_window
from slc_ops.refresh.replay import rehearsal_installation, replayed_windows
from slc_ops.refresh.versions import newest_refresh
from slc_ops.refresh.window_rules import is_scheduled
from slc_ops.refresh.windows import NoRows
from slc_ops.registry import Registry
from slc_ops.settings.environment import Installation
from tests.refresh.backbones import named
from tests.refresh.school import DEFAULT, NEWEST, change_week, configure, of_one_class, open_school

WEEKS = [*NEWEST.before(6), NEWEST]
PHASES = (Phase.explicit, Phase.generate)  # examples take long, so no shrinking
Change = Callable[[pa.Table], pa.Table]


@dataclass(frozen=True)
class Story:
    """Settings of a deployment, and changes to its weeks."""

    settings: dict[str, Any]
    weeks: dict[int, str] = field(default_factory=dict)
    new_backbone: int | None = None
    """The week from which on rows are of another backbone."""
    mixed: bool = False
    """That week begins with rows of the old one."""


def without_rows(rows: pa.Table) -> pa.Table:
    return rows.slice(0, 0)


def turned(rows: pa.Table) -> pa.Table:
    label = pa.array(1 - rows["label"].to_numpy())
    return rows.set_column(rows.schema.get_field_index("label"), "label", label)


def waiting(rows: pa.Table) -> pa.Table:
    """One row in fifty has no label yet."""
    mask = np.arange(rows.num_rows) % 50 == 0
    label = pa.array(rows["label"].to_numpy(), mask=mask)
    return rows.set_column(rows.schema.get_field_index("label"), "label", label)


def unnamed(rows: pa.Table) -> pa.Table:
    place = rows.schema.get_field_index("backbone_version")
    return rows.set_column(place, "backbone_version", pa.nulls(rows.num_rows, pa.string()))


EVENTS: dict[str, Change] = {
    "missing": without_rows,
    "stopped": of_one_class,
    "turned": turned,
    "waiting": waiting,
    "unnamed": unnamed,
}


@st.composite
def stories(draw: st.DrawFn) -> Story:
    """Settings with different decisions, and changes to some weeks."""
    chosen = {
        "methods": draw(st.sampled_from([DEFAULT, ["platt", "slc"], ["ridge", "slc_eb"], ["slc_t"]])),
        "link_windows": draw(st.integers(1, 3)),
        "offset_windows": draw(st.integers(1, 4)),
        "evidence_windows": draw(st.integers(2, 6)),
        "gate": draw(st.sampled_from(["auto", "manual"])),
        "refresh_every": draw(st.sampled_from([1, 1, 2])),
        "on_new_backbone": draw(st.sampled_from(["stop", "split"])),
        "champion_of_another_backbone": draw(st.sampled_from(["retire", "keep"])),
        "decision": {"replicates": 100, "max_slice_nll_loss": draw(st.sampled_from([None, 0.0]))},
        "label_lag": "3d",
    }
    weeks = draw(st.dictionaries(st.integers(0, len(WEEKS) - 1), st.sampled_from(sorted(EVENTS)), max_size=2))
    return Story(chosen, weeks, draw(st.none() | st.integers(2, len(WEEKS) - 1)), draw(st.booleans()))


@pytest.fixture(scope="module")
def small_lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("lake")
    simulate(out, weeks=7, users=100, items=20, seed=11, start="2026-01-05")
    return out


@contextmanager
def home_of(story: Story, lake: Path) -> Iterator[Installation]:
    """A home with the log of the story."""
    with TemporaryDirectory(prefix="slc-story-") as temporary, pytest.MonkeyPatch.context() as patch:
        installation = open_school(Path(temporary), lake, patch)
        configure(installation, **story.settings)
        for k, week in enumerate(WEEKS):
            if story.new_backbone is not None:
                new = k >= story.new_backbone
                share = 0.4 if story.mixed and k == story.new_backbone else 1.0
                change_week(installation, week, named("gru-8" if new else "gru-7", share=share))
            if k in story.weeks:
                change_week(installation, week, EVENTS[story.weeks[k]])
        yield installation


def state(installation: Installation, window: Window) -> dict[str, Any]:
    """The decision of a refresh and the serving version, without version numbers."""
    plan = newest_refresh(installation, "school", window)
    verdict = {} if plan is None else read_json(plan.files.verdict)
    verdict.pop("sealed_digest", None)
    if verdict:
        verdict["champion"] = {k: v for k, v in verdict["champion"].items() if k != "version"}
    registry = Registry.open(installation)
    champion = registry.champion("school")
    if champion is None:
        return {"verdict": verdict, "serves": "base", "parameters": {}}
    with TemporaryDirectory() as scratch:
        directory = registry.stored(champion, Path(scratch))
        parameters = {path.name: path.read_bytes() for path in sorted(directory.iterdir())}
    return {"verdict": verdict, "serves": champion.method, "parameters": parameters}


def refreshed(installation: Installation) -> list[dict[str, Any]]:
    """Refresh the weeks one after the other; approve pending changes at once."""
    found = []
    settings = installation.deployment("school")
    for window in WEEKS:
        if is_scheduled(window, settings.cadence, settings.refresh_every):
            try:
                plan = pipeline.refresh(installation, "school", window)
                if settings.gate == "manual":
                    promote_window(installation, plan, actor="ann")
            except (NoRows, ValidationStopped, SelfTestFailed) as error:
                note(f"{window}: {error}")
        found.append(state(installation, window))
    return found


def replayed(installation: Installation) -> list[dict[str, Any]]:
    """Replay the weeks; record the state after each."""
    directory = installation.home / "replay"
    rehearsal = rehearsal_installation(directory, installation.home)
    settings = installation.deployment("school")
    found = []
    for seen in replayed_windows("school", settings, WEEKS, directory, home=installation.home):
        found.append(state(rehearsal, seen.window))
        assert seen.serves_next == found[-1]["serves"]
    return found


def check(story: Story, lake: Path) -> None:
    with home_of(story, lake) as installation:
        found = zip(WEEKS, replayed(installation), refreshed(installation), strict=True)
        for window, ours, theirs in found:
            assert ours == theirs, window


@pytest.mark.slow
@pytest.mark.timeout(1200)  # ten stories of seven refreshes, twice each
@settings(max_examples=10, deadline=None, phases=PHASES)
@given(stories())
def test_a_replay_is_a_sequence_of_refreshes(small_lake: Path, story: Story) -> None:
    check(story, small_lake)
