"""A deployment whose backbone changes: nine weeks of gru-7, then gru-8."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from slc_ops.base.window import WEEK, Window
from slc_ops.refresh import pipeline
from slc_ops.refresh.backbone import BackboneChange
from slc_ops.refresh.plan import Plan
from slc_ops.registry import Registry
from slc_ops.settings.environment import Installation
from tests.refresh.school import change_week, configure, open_school

FIRST = Window.parse("2026-01-05/2026-01-12")
WEEKS = [Window(FIRST.start + k * WEEK, FIRST.end + k * WEEK) for k in range(12)]
SETTINGS = {"link_windows": 2, "offset_windows": 2, "evidence_windows": 2}


def named(version: str, share: float = 1.0, other: str = "gru-7"):  # type: ignore[no-untyped-def]
    """Rows of a version; the first share of them of another version."""

    def change(rows: pa.Table) -> pa.Table:
        rows = rows.sort_by("event_time")
        first = rows.num_rows - round(share * rows.num_rows)
        versions = np.where(np.arange(rows.num_rows) < first, other, version)
        place = rows.schema.names.index("backbone_version")
        return rows.set_column(place, "backbone_version", pa.array(versions.tolist()))

    return change


def furnish(home: Path, lake: Path, monkeypatch: pytest.MonkeyPatch) -> Installation:
    """A home with the lake, whose weeks name their backbone; sets the environment."""
    installation = open_school(home, lake, monkeypatch)
    configure(installation, **SETTINGS)
    for week in WEEKS[:9]:
        change_week(installation, week, named("gru-7"))
    for week in WEEKS[9:]:
        change_week(installation, week, named("gru-8"))
    return installation


def refresh(installation: Installation, week: int) -> tuple[Plan, list[str]]:
    said: list[str] = []
    return pipeline.refresh(installation, "school", WEEKS[week], tell=said.append), said


def first_steps(installation: Installation, week: int) -> tuple[Plan, BackboneChange | None]:
    """The first tasks of the DAG: one week alone may be too little to compare methods."""
    pipeline.extract(installation, "school", WEEKS[week])
    plan = pipeline.read_plan(pipeline.validate(installation, "school", WEEKS[week]))
    return plan, pipeline.note_backbone(installation, plan)


def champion_of(installation: Installation, week: int) -> int:
    """Promote the version of this week, whatever the evidence."""
    refresh(installation, week)
    registry = Registry.open(installation)
    if registry.champion("school") is None:
        waiting = registry.challenger("school")
        assert waiting is not None
        registry.promote("school", waiting.number, actor="ann", reason="its turn", override="for the story")
    found = registry.champion("school")
    assert found is not None
    return found.number
