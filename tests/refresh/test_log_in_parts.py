"""A refresh in one process on windows written by several: folders of parts."""

import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from slc_ops.base.files import read_json
from slc_ops.base.parquet import digest_log, part_name
from slc_ops.intake.manifest import WindowManifest
from slc_ops.refresh import pipeline
from slc_ops.settings.environment import Installation
from tests.refresh.school import NEWEST


def in_parts(directory: Path) -> WindowManifest:
    """The window's log as a folder of three parts, as executors write it."""
    manifest = WindowManifest.read(directory)
    for kept in ("log.sums.parquet", "statistics.json", "items.parquet", "validation.json"):
        (directory / kept).unlink(missing_ok=True)
    rows = pq.read_table(manifest.path)
    manifest.path.unlink()
    manifest.path.mkdir()
    third = -(-rows.num_rows // 3)
    for k in range(3):
        pq.write_table(rows.slice(k * third, third), manifest.path / part_name(k), write_page_checksum=True)
    manifest = replace(manifest, file_digest=digest_log(manifest.path))
    manifest.write()
    return manifest


@pytest.mark.slow
def test_parts_and_single_files_give_the_same_verdict(school: Installation) -> None:
    found = []
    for _ in ("whole", "in parts"):
        plan = pipeline.refresh(school, "school", NEWEST, until="decide")
        found.append(read_json(plan.files.verdict))
        pinned = plan.newest.log
        if len(found) == 1:
            assert pinned.is_file()
            shutil.rmtree(plan.directory)
            for manifest in school.windows("school").glob("[!.]*/manifest.json"):
                in_parts(manifest.parent)
    assert len(list(pinned.iterdir())) == 3
    assert found[0] == found[1]
