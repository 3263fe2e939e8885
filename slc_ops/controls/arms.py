"""An arm of a control: one backbone with one seed, refreshed in the control's home.

A control's home is ``<home>/controls/<control>``: a deployments file with one entry per arm, a lake per arm,
windows and refreshes as for any deployment, and a ledger that stays empty. MLflow is that of the
installation; nothing is registered in it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.parquet as pq

from slc_ops.base.errors import SettingsError
from slc_ops.base.files import read_json, replacing, write_json, write_text
from slc_ops.base.json_form import JsonForm
from slc_ops.base.methods import METHODS
from slc_ops.base.window import Window
from slc_ops.refresh import pipeline
from slc_ops.refresh.plan import Plan
from slc_ops.settings.environment import Installation

Role = Literal["positive", "negative", "contrast", "turning", "observed"]

SEEDS = (0, 1, 2)
LADDER = ("base", "platt", "rescal", "slc", "slc_eb")
"""Methods of every arm; the first arm of a control compares all methods."""


@dataclass(frozen=True)
class Arm(JsonForm):
    """``role`` is the expectation; ``window`` is the test window, the window before it calibrates."""

    name: str
    backbone: str
    seed: int
    role: Role
    window: Window


@dataclass(frozen=True)
class Request:
    """Options of a control; default the embedded data, every backbone, three seeds."""

    data: Path | None = None
    backbone: str | None = None
    seed: int | None = None

    def arms(self, roles: Mapping[str, Role], window: Window) -> list[Arm]:
        """Return an arm per requested backbone and seed; raise `SettingsError` for an unknown backbone.

        ``roles`` are the control's backbones and what is expected of each.
        """
        if self.backbone not in (None, *roles):
            raise SettingsError(f"no backbone {self.backbone!r}; there are {', '.join(roles)}")
        return [
            Arm(f"{backbone.lower()}-seed{seed}", backbone, seed, role, window)
            for backbone, role in roles.items()
            if self.backbone in (None, backbone)
            for seed in (SEEDS if self.seed is None else (self.seed,))
        ]


def control_installation(installation: Installation, control: str) -> Installation:
    """Return the installation of a control, with its own home and ledger."""
    home = installation.home / "controls" / control
    return replace(
        installation,
        home=home,
        deployments_file=home / "deployments.yaml",
        ledger_url=f"sqlite:///{home}/ledger.db",
    )


def declare(installation: Installation, arms: Sequence[Arm]) -> None:
    """Write the deployments file and the list of arms."""
    import yaml

    entries = {
        arm.name: {
            "source": {"kind": "lake", "path": f"lake/{arm.name}"},
            "methods": list(METHODS if arm == arms[0] else LADDER),
            "link_windows": 1,
            "offset_windows": 1,
            "evidence_windows": 1,
            "gate": "never",
            # The paper's constants, untuned, for comparison with published figures.
            "decision": {"prior_vars": [1.0], "time_bins": [10]},
        }
        for arm in arms
    }
    write_text(installation.deployments_file, yaml.safe_dump({"deployments": entries}, sort_keys=False))
    write_json(installation.home / "arms.json", [arm.as_dict() for arm in arms])


def declared(installation: Installation) -> list[Arm]:
    """Return the arms from :func:`declare`."""
    return [Arm.from_dict(value) for value in read_json(installation.home / "arms.json")]


def declared_arm(installation: Installation, name: str) -> Arm:
    """Return one arm by name; raise `SettingsError` if it is not declared."""
    for arm in declared(installation):
        if arm.name == name:
            return arm
    raise SettingsError(f"no arm {str(name)[:60]!r} in {installation.home}; prepare the control first")


def write_lake(installation: Installation, arm: Arm, batches: Iterable[pa.RecordBatch]) -> None:
    """Stream the arm's log into one file."""
    batches = iter(batches)
    first = next(batches, None)
    if first is None:
        raise SettingsError(f"the arm {arm.name} has no rows")
    with (
        replacing(installation.home / "lake" / arm.name / "log.parquet") as temporary,
        pq.ParquetWriter(temporary, first.schema, compression="zstd") as writer,
    ):
        for batch in chain([first], batches):
            writer.write_batch(batch)


def evaluate_arm(installation: Installation, arm: Arm, tell: Callable[[str], None]) -> Plan:
    """Run the weekly refresh of one arm without publication and promotion."""
    return pipeline.refresh(
        installation,
        arm.name,
        arm.window,
        until="decide",
        off_grid=True,  # public data cover months and half-years
        tell=lambda text: tell(f"{arm.name}: {text}"),
    )
