"""The operation over past windows as it would have run; nothing is registered.

One pass over the windows, oldest first. Each is extracted and validated as by a refresh; what its
predecessors put in place is scored on it, beside every method refitted on the windows before; then the
decision is taken and the parameters are renewed by the refresh's own functions. A window is decoded once, a
method is fitted once on the same windows, and standard errors are in closed form, so that a year takes
seconds.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from slc_ops.base.errors import FitError, InputError, SettingsError
from slc_ops.base.methods import METHODS, ladder
from slc_ops.base.text import as_sentence
from slc_ops.base.window import Window
from slc_ops.evidence.decision import FROZEN, MethodDecision, decide_method
from slc_ops.evidence.detectability import detectability
from slc_ops.evidence.evaluation import evaluate
from slc_ops.evidence.folds import hold_out
from slc_ops.evidence.renewal import check_renewal
from slc_ops.evidence.replayed import SERVED, Renewed, Replay, ReplayedWindow, Status
from slc_ops.evidence.series import Entry, entry, paired
from slc_ops.evidence.uncertainty import UserSums
from slc_ops.evidence.verdict import may_not
from slc_ops.methods import FitOptions, fit
from slc_ops.methods.fitting.calibration import Calibration
from slc_ops.parameters.parameter_set import ParameterSet
from slc_ops.refresh.backbone import versions_of
from slc_ops.refresh.backfill import LONGEST, border
from slc_ops.refresh.kept_rows import KeptRows, PastWindows
from slc_ops.refresh.offline_backtest import backtest_settings
from slc_ops.rows.rows import Log
from slc_ops.settings.deployments import Deployment, Places


@dataclass(frozen=True)
class Memory:
    """The usable ones of the last windows, oldest first: what links and what offsets are learned from."""

    link: tuple[Window, ...]
    offsets: tuple[Window, ...]


def replay_settings(
    name: str, lake: Path | None = None, methods: Sequence[str] | Literal["all"] | None = None
) -> tuple[Deployment, Path]:
    """The deployment's settings with what the caller says instead, and where its sources' paths begin.

    The rows of a lake that is named instead of the deployment's source need no event ids.
    """
    settings = backtest_settings(name, lake, methods=methods)
    if lake is not None:
        quality = settings.quality.model_copy(update={"require_event_ids": False})
        settings = settings.model_copy(update={"quality": quality})
    return settings, Places.from_environment().home


def replay_windows(settings: Deployment, start: str, end: str) -> list[Window]:
    """The windows of ``[start, end)``, oldest first; borders off the deployment's grid are refused."""
    cadence = settings.cadence
    whole = Window(border(cadence, start, "from"), border(cadence, end, "to"), settings.window.zone)
    windows = cadence.between(whole.start, whole.end)
    if len(windows) > LONGEST:
        raise SettingsError(f"{whole} is {len(windows)} windows; replay at most {LONGEST} at a time")
    return windows


def run_replay(
    name: str,
    settings: Deployment,
    windows: Sequence[Window],
    directory: Path,
    *,
    home: Path,
    tell: Callable[[str], None] = lambda text: None,
) -> Replay:
    """Replay the windows, oldest first, as if their refreshes had run one after the other.

    Extracted rows are kept under ``directory``; relative paths of the source begin at ``home``. The windows
    before the first one are learned from where the source has them, as the first refresh would do. ``tell``
    hears of every window.
    """
    run = Operation(settings, PastWindows(settings, directory / "windows", home))
    found = []
    for window in windows:
        found.append(run.step(window))
        tell(f"{window}: {found[-1].status}, served {found[-1].served}, next {found[-1].serves_next}")
    return Replay(name, ladder(settings.methods), tuple(found), settings.decision.confidence)


class Operation:
    """What serves, and what has been fitted, on the way through the windows."""

    def __init__(self, settings: Deployment, past: PastWindows) -> None:
        self.settings, self.past, self.rows = settings, past, KeptRows()
        self.methods = ladder(settings.methods)
        self.options = FitOptions(prior_var=settings.prior_var, time_bins=settings.time_bins, threads=1)
        self.method = FROZEN
        self.parameters: ParameterSet | None = None
        self.backbone: str | None = None  # that the parameters were fitted for
        self.ours: set[str] = set()  # the backbones of the window that is being refreshed
        self.backbones: dict[Window, set[str]] = {}
        self.held: Window | None = None
        self.left_out: set[Window] = set()
        self.fits: dict[tuple[Memory, str], ParameterSet | str] = {}
        self.entries: dict[tuple[Window, Memory], tuple[Entry, dict[str, UserSums]]] = {}

    def step(self, window: Window) -> ReplayedWindow:
        """One refresh: score what served, decide, renew."""
        seen = self.past[window]
        if seen.log is None:
            status: Status = "missing" if seen.stopped is None else "stopped"
            note = seen.stopped or "the source has no rows"
            return ReplayedWindow(window, status, self.method, self.method, note=note)
        self.ours = self._versions(window)
        note = self._other_backbone()
        served = self.method
        found = [self._entry(each) for each in self._evidence(window)]
        scored = self._with_served(window, *found[-1])
        status = "first" if scored.hold_out else "scored"
        if not self._due(window):
            return ReplayedWindow(window, status, served, served, entry=scored, note=note)
        decision = decide_method(
            [each for each, _ in found],
            served,
            self.methods,
            self.settings.decision,
            evidence_windows=self.settings.evidence_windows,
            may_not=self._may_not(window),
        )
        renewal, sentence = self._renew(window, decision)
        self._forget(window)
        return ReplayedWindow(
            window, status, served, self.method, renewal, scored, sentence=sentence, note=note
        )

    def _due(self, window: Window) -> bool:
        """Whether a refresh ends with this window; with ``refresh_every`` it is every so many of them."""
        return self.settings.cadence.span(window, self.settings.refresh_every).end == window.end

    # --- windows to learn from, windows to be scored on -------------------------------------------------

    def _memory(self, window: Window, *, included: bool = False) -> Memory:
        """The usable ones among the windows before a window, or up to and including it."""
        long, short = self.settings.offset_windows, self.settings.link_windows
        count = max(long, short)
        reach = [*window.before(count - 1), window] if included else window.before(count)
        link, offsets = (
            tuple(each for each in part if self._usable(each)) for part in (reach[-short:], reach)
        )
        return Memory(link, offsets)

    def _usable(self, window: Window) -> bool:
        """Whether later windows learn from it: it has rows, was not held, and is of the newest's backbone."""
        if window in self.left_out or self.past[window].log is None:
            return False
        theirs = self._versions(window)
        return not theirs or not self.ours or bool(theirs & self.ours)

    def _versions(self, window: Window) -> set[str]:
        """The versions of the backbone that a window's rows name."""
        if window not in self.backbones:
            self.backbones[window] = set(versions_of(self._path(window)))
        return self.backbones[window]

    def _other_backbone(self) -> str:
        """Retire parameters that were fitted for another backbone than the newest window's; says so."""
        fitted = self.backbone
        if fitted is None or not self.ours or fitted in self.ours:
            return ""
        gone, names = self.method, ", ".join(sorted(self.ours))
        self.method, self.parameters, self.backbone = FROZEN, None, None
        return f"{gone} was fitted for backbone {fitted}, this window is of {names}: the frozen model served"

    def _may_not(self, window: Window) -> dict[str, str]:
        """Methods that may not be chosen after a window, and why; looked at only where one is listed."""
        tracking = [name for name in self.methods if METHODS[name].tracks_drift]
        if not tracking:
            return {}
        link = self._memory(window).link
        log = self._log(link) if link else hold_out(self.rows.read(self._path(window)))[0]
        return may_not(detectability(log, time_bins=self.settings.time_bins))

    def _evidence(self, window: Window) -> list[Window]:
        """The windows whose entries the decision looks at, the newest last."""
        found = [each for each in window.before(self.settings.evidence_windows - 1) if self._usable(each)]
        scored = [each for each in found if self._memory(each).link]
        return [*scored, window]

    def _log(self, windows: tuple[Window, ...]) -> Log:
        return self.rows.read([self._path(each) for each in windows])

    def _path(self, window: Window) -> Path:
        path = self.past[window].log
        if path is None:
            raise InputError(f"window {window} has no usable rows")
        return path

    # --- fits and scores --------------------------------------------------------------------------------

    def _fit(self, memory: Memory, method: str) -> ParameterSet | str:
        """A method on the windows of a memory, fitted once; or why it cannot be."""
        key = memory, method
        if key not in self.fits:
            further = METHODS[method].long_memory and len(memory.offsets) > len(memory.link)
            long = self._log(memory.offsets) if further else None
            self.fits[key] = self._fitted(self._log(memory.link), long, method)
        return self.fits[key]

    def _fitted(self, link: Log, long: Log | None, method: str) -> ParameterSet | str:
        try:
            return fit(method, link, options=self.options, long=long)
        except (FitError, InputError) as error:
            return str(error)

    def _entry(self, window: Window) -> tuple[Entry, dict[str, UserSums]]:
        """Every method, fitted on the windows before, scored on a window."""
        memory = self._memory(window)
        key = window, memory
        if key not in self.entries:
            test: Log = self.rows.read(self._path(window))
            if memory.link:
                fitted = {method: self._fit(memory, method) for method in self.methods}
            else:
                earlier, test = hold_out(test)
                fitted = {method: self._fitted(earlier, None, method) for method in self.methods}
            sums = {m: _sums(each, test) for m, each in fitted.items() if isinstance(each, ParameterSet)}
            missing = {m: each for m, each in fitted.items() if isinstance(each, str)}
            self.entries[key] = entry(window, sums, hold_out=not memory.link, left_out=missing), sums
        return self.entries[key]

    def _with_served(self, window: Window, found: Entry, sums: dict[str, UserSums]) -> Entry:
        """The entry with what was served beside the methods; a first window is scored on its later part."""
        if found.hold_out or not sums:
            return found
        own = sums[FROZEN]
        if self.parameters is not None:
            own = _sums(self.parameters, self.rows.read(self._path(window)))
        return replace(
            found,
            nll={**found.nll, SERVED: float(own.means["nll"].sum()) / found.weight},
            against={**found.against, SERVED: {m: paired(own, each) for m, each in sums.items()}},
        )

    # --- what serves next -------------------------------------------------------------------------------

    def _renew(self, window: Window, decision: MethodDecision) -> tuple[Renewed, str]:
        """Fit the method that is to serve with the newest window, and let it serve if that is sane."""
        reasons = [each for each in decision.reasons if each.says == "pass" or not decision.change]
        said = _sentence(each.sentence for each in reasons)
        if decision.method == FROZEN:
            self.method, self.parameters, self.backbone = FROZEN, None, None
            return "none", said
        memory = self._memory(window, included=True)
        after = self._fit(memory, decision.method)
        if isinstance(after, str):
            return "held", _sentence([f"{decision.method} cannot be fitted: {after}"])
        memories = [self._memory(each) for each in self._evidence(window)]
        behind = [self._fit(each, decision.method) for each in memories if each.link]
        past = [each for each in behind if isinstance(each, ParameterSet)]
        moments = Calibration(self._log(memory.link)).logit_moments
        before = window.before(1)[0]
        check = check_renewal(after, past, moments, held_before=self.held == before)
        if not check.accepted:
            if check.limit is not None:  # it moved too far: then the window is left out of later fits
                self.held = window
                self.left_out.add(window)
            return "held", _sentence([check.sentence])
        if check.news:
            self.left_out.discard(before)
        self.held = None
        self.method, self.parameters = decision.method, after
        versions = self._log(memory.link).backbone_versions
        self.backbone = versions[0] if len(versions) == 1 else None
        return "renewed", said if decision.change else f"{said} {_sentence([check.sentence])}".strip()

    def _forget(self, window: Window) -> None:
        """Rows that no later window learns from, and fits on them, are let go."""
        needed = {*window.before(self.settings.offset_windows + self.settings.evidence_windows), window}
        self.rows.let_go(path for each in needed if (path := self.past[each].log) is not None)
        self.fits = {key: each for key, each in self.fits.items() if set(key[0].offsets) <= needed}
        self.entries = {key: each for key, each in self.entries.items() if key[0] in needed}


def _sums(parameters: ParameterSet, test: Log) -> UserSums:
    return evaluate(parameters, test, threads=1).users


def _sentence(parts: Iterable[str]) -> str:
    text = "; ".join(parts)
    return f"{as_sentence(text)}." if text else ""
