"""The plan of one refresh: its windows and its key."""

import os
import shutil
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from slc_ops.base.code_version import code_version
from slc_ops.base.digests import digest_json
from slc_ops.base.files import read_json, replacing, replacing_directory, understanding, write_json
from slc_ops.base.json_form import JsonForm, to_json
from slc_ops.base.parquet import parts_of
from slc_ops.base.window import Window
from slc_ops.refresh.files import RefreshFiles
from slc_ops.refresh.window_rules import Memory, Reach, memory_up_to
from slc_ops.settings.deployments import Deployment

NOT_IN_KEY = {
    "owner", "start", "end", "schedule", "gate", "renew", "approval_hours", "lookback_windows", "notify",
    "keep_windows", "keep_refreshes",
    "window", "refresh_every", "label_lag", "labels", "wait_for_source", "verdict_due",
    "champion_of_another_backbone", "approvers",
}  # fmt: skip
"""Settings that change no result, or only through the windows; their bounds and digests are in the key."""


@dataclass(frozen=True)
class PlannedWindow(JsonForm):
    """A validated window: the path of its usable rows, and the digest of their content.

    ``rows_key`` identifies the usable rows: the window's content, the settings of its validation, and the
    code.
    """

    window: Window
    log: Path
    digest: str
    validation: dict[str, Any]
    rows_key: str


Windows = tuple[PlannedWindow, ...]


@dataclass(frozen=True)
class Plan(JsonForm):
    """One refresh. All its results are in ``directory``, whose name is the refresh's key."""

    deployment: str
    window: Window
    windows: Windows
    excluded: tuple[dict[str, str], ...]
    settings: dict[str, Any]
    input_digest: str
    config_digest: str
    code_version: str
    directory: Path
    earlier: Windows = ()
    """Windows of the previous backbone, while the new one's first windows still need them."""
    backbone_version: str | None = None
    """The backbone that served at the end of the window, if its rows have versions."""

    @property
    def pinned(self) -> Windows:
        """Every window whose rows the refresh keeps."""
        return (*self.earlier, *self.windows)

    @property
    def newest(self) -> PlannedWindow:
        """The refreshed window."""
        return self.windows[-1]

    @property
    def learned(self) -> Windows:
        """The windows of the published parameters' fit."""
        return self._among(self._memory.offsets)

    @property
    def older(self) -> Windows:
        """The windows of methods that forget; they end with those of :attr:`learned`."""
        return self._among(self._memory.older)

    @property
    def _memory(self) -> Memory:
        return memory_up_to(self.window, [each.window for each in self.windows], Reach.of(self.settings))

    def _among(self, wanted: Collection[Window]) -> Windows:
        return tuple(each for each in self.windows if each.window in wanted)

    @property
    def files(self) -> RefreshFiles:
        """The paths of the refresh."""
        return RefreshFiles(self.directory)

    @property
    def path(self) -> Path:
        """The plan's own file: the reference between tasks."""
        return self.files.plan

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form, without the directory, which may be moved."""
        form: dict[str, Any] = to_json(self, exclude={"directory"})
        return form


def make_plan(
    name: str,
    deployment: Deployment,
    window: Window,
    windows: list[PlannedWindow],
    excluded: list[dict[str, str]],
    refreshes: Path,
    digest_now: Callable[[Window], str],
    earlier: Sequence[PlannedWindow] = (),
    backbone_version: str | None = None,
) -> Plan | None:
    """Compute the refresh's key from its input and write the plan; the same input gives the same plan.

    ``earlier`` are windows of the previous backbone, for the prior mean of the new one's offsets.
    ``digest_now`` returns a window's current digest after its rows are pinned; None is returned if late rows
    replaced one meanwhile, and the windows must be validated again.
    """
    settings = deployment.model_dump(mode="json", exclude=NOT_IN_KEY)
    memory = memory_up_to(window, [each.window for each in windows], Reach.of(settings))
    input_digest = digest_json(
        {
            "windows": [[each.window.as_dict(), each.digest] for each in windows],
            "learned": [each.as_dict() for each in memory.offsets],
            **({"older": [each.as_dict() for each in memory.older]} if memory.older else {}),
            **({"earlier": [[each.window.as_dict(), each.digest] for each in earlier]} if earlier else {}),
        }
    )
    config_digest = digest_json(settings)
    key = digest_json([name, window.as_dict(), input_digest, config_digest, code_version()])
    plan = Plan(
        deployment=name,
        window=window,
        windows=tuple(windows),
        excluded=tuple(excluded),
        settings=settings,
        input_digest=input_digest,
        config_digest=config_digest,
        code_version=code_version(),
        directory=refreshes / window.key / key[:16],
        backbone_version=backbone_version,
    )
    if not plan.path.exists():
        pinned, before = (
            tuple(replace(each, log=_pin(each, plan.files.windows)) for each in part)
            for part in (windows, earlier)
        )
        if any(digest_now(each.window) != each.digest for each in (*windows, *earlier)):
            return None
        write_json(plan.path, replace(plan, windows=pinned, earlier=before).as_dict())
    return read_plan(plan.path)


def _pin(window: PlannedWindow, directory: Path) -> Path:
    """Link the plan's rows, so that late rows cannot replace them while the refresh runs.

    Their item sums are linked too, unless they have another refresh's key.
    """
    from slc_ops.methods.fitting.window_sums import key_of, sums_path

    pinned = directory / f"{window.window.key}.parquet"
    if window.log.is_dir():
        with replacing_directory(pinned) as temporary:
            for part in parts_of(window.log):
                same_file(part, temporary / part.name)
    else:
        same_file(window.log, pinned)
    sums = sums_path(pinned)
    with suppress(FileNotFoundError):  # then they are computed from the rows
        same_file(sums_path(window.log), sums)
    if key_of(sums) != window.rows_key:
        sums.unlink(missing_ok=True)
    return pinned


def same_file(source: Path, target: Path) -> None:
    """Create a hard link, which needs no space; without support in the file system, copy the file."""
    with replacing(target) as temporary:
        temporary.unlink()
        try:
            os.link(source, temporary)
        except OSError:
            shutil.copy(source, temporary)


def read_plan(path: str | Path) -> Plan:
    """Read a plan from its file."""
    path = Path(path)
    with understanding(path):
        return Plan.from_dict({**read_json(path), "directory": path.parent})
