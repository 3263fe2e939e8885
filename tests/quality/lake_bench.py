"""A home with a small simulated lake; tests may damage its newest week."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from slc_ops.base.window import Window
from slc_ops.intake.extract import extract
from slc_ops.intake.manifest import WindowManifest
from slc_ops.quality.result import RESULT, ValidationResult
from slc_ops.quality.verdict import Baseline, validate
from slc_ops.settings.deployments import Deployment
from slc_ops.settings.environment import Installation
from slc_ops.settings.quality import Quality
from slc_ops.settings.sources import LakeSource

WEEKS = 4
ROWS = 2000
NEWEST = Window.parse("2026-01-26/2026-02-02")
DEPLOYMENT = Deployment(
    source=LakeSource(path="lake/demo"),
    link_windows=2,
    offset_windows=2,
    evidence_windows=2,
    lookback_windows=0,
)


@dataclass
class Bench:
    """A home with a private copy of the lake; tests may damage its newest week."""

    installation: Installation
    week: Path
    deployment: Deployment

    def read(self, window: Window = NEWEST) -> pa.Table:
        """The rows of a week, by default the newest."""
        return pq.read_table(self.week.parent / f"week={window.key}" / "part-0.parquet")

    def write(self, rows: pa.Table, name: str = "part-0.parquet", window: Window = NEWEST) -> None:
        """Write the rows of a week, by default the newest."""
        pq.write_table(rows, self.week.parent / f"week={window.key}" / name)

    def configure(self, **changes: object) -> None:
        """Change the settings of the deployment."""
        self.deployment = Deployment.model_validate({**self.deployment.model_dump(), **changes})

    def validate(self, window: Window = NEWEST, *, again: bool = False) -> ValidationResult:
        """Extract the window and the three before it (again if ``again``), and validate it."""
        directory = self.installation.windows("demo")
        *trailing, newest = [
            extract(
                self.deployment, each, directory, refresh=again or each == window, home=self.installation.home
            )
            for each in [*window.before(WEEKS - 1), window]
        ]
        return validate(newest, Baseline(trailing, earlier=trailing), self.deployment.quality)


Damage = Callable[[Bench], None]


def validate_by_rules(
    manifest: WindowManifest, trailing: Sequence[WindowManifest], quality: Quality
) -> ValidationResult:
    """Apply the rules of a replay to a window that Great Expectations has validated."""
    (manifest.directory / RESULT).unlink(missing_ok=True)
    return validate(manifest, Baseline(trailing), quality, suite=False)
