"""Past windows as a refresh would use them: extracted, validated, decoded once, kept while they are needed.

A replay looks at the same window from many later ones. Its rows are read from Parquet once and stay in memory
as Arrow columns with their item sums; :class:`KeptRows` hands them to folds as an engine does, so that every
fit runs on the same log, byte for byte, as in a refresh.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from slc_ops.base.errors import ValidationStopped
from slc_ops.base.window import Window
from slc_ops.intake.manifest import WindowManifest
from slc_ops.methods.fitting.summed_log import ItemSums, SummedLog
from slc_ops.methods.fitting.window_sums import sums_of
from slc_ops.rows.interactions import InteractionLog
from slc_ops.rows.reading import TableSource, open_source
from slc_ops.settings.deployments import Deployment

NEVER_FITTED = ("event_id", "served_probability", "served_version")


@dataclass(frozen=True)
class PastWindow:
    """A window of the source: where its usable rows lie, or why there are none."""

    window: Window
    log: Path | None = None
    stopped: str | None = None
    """Why validation would have stopped the refresh; None also for a window without any row."""


class PastWindows:
    """The windows of a deployment's source, extracted and validated as its refresh does, each once."""

    def __init__(self, deployment: Deployment, directory: Path, home: Path) -> None:
        from slc_ops.quality.history import History

        self._deployment, self._directory, self._home = deployment, directory, home
        self._manifests: dict[Window, WindowManifest] = {}
        self._looked_at: dict[Window, PastWindow] = {}
        self._history = History(self._manifest, deployment.quality)

    def __getitem__(self, window: Window) -> PastWindow:
        """The window, extracted and validated when it is first asked for, with its yardstick before it."""
        if window not in self._looked_at:
            self._looked_at[window] = self._look_at(window)
        return self._looked_at[window]

    def _look_at(self, window: Window) -> PastWindow:
        from slc_ops.quality.verdict import judge_by_rules

        manifest = self._manifest(window)
        if not manifest.rows:
            return PastWindow(window)
        try:
            result = judge_by_rules(manifest, self._history.yardstick(window), self._deployment.quality)
        except ValidationStopped as stopped:
            return PastWindow(window, stopped=str(stopped))
        return PastWindow(window, result.clean_path)

    def _manifest(self, window: Window) -> WindowManifest:
        from slc_ops.intake.extract import extract
        from slc_ops.quality import observer

        if window not in self._manifests:
            self._manifests[window] = extract(
                self._deployment,
                window,
                self._directory,
                home=self._home,
                observer=observer(window, self._deployment),
            )
        return self._manifests[window]


class KeptRows:
    """An engine (:class:`~slc_ops.rows.engine.Engine`) whose windows stay in memory once they were read."""

    def __init__(self) -> None:
        self._kept: dict[Path, tuple[InteractionLog, TableSource, ItemSums]] = {}

    def read(self, paths: Path | Sequence[Path]) -> InteractionLog:
        """One window's rows, or several windows as one log with their item sums."""
        if isinstance(paths, Path):
            return self._window(paths)[0]
        return SummedLog([self._window(path)[1:] for path in paths])

    def let_go(self, needed: Iterable[Path]) -> None:
        """Forget the windows that are not needed any more."""
        kept = set(needed)
        self._kept = {path: rows for path, rows in self._kept.items() if path in kept}

    def _window(self, path: Path) -> tuple[InteractionLog, TableSource, ItemSums]:
        if path not in self._kept:
            file = open_source(path, {})
            wanted = [name for name in file.types if name not in NEVER_FITTED]
            source = TableSource(pa.Table.from_batches(list(file.batches(wanted))), str(path))
            rows = InteractionLog(source)
            self._kept[path] = rows, source, sums_of(rows)
        return self._kept[path]
