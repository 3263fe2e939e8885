"""Reuse fits and fold scores of earlier refreshes.

A refresh publishes its method fitted on the windows up to the newest one. A week later the newest fold has
the same windows, and the same method fitted on them gives the same parameter set to the last bit; so the set
is read, and the rows are not. The next refresh also scores the same older windows; so an entry of the series
never changes, and the next refresh costs one new fold.

A fit is a function of its rows, the method, its options and the code; a score also of the test rows. Their
keys, digests of all of these, are stored beside them. An unreadable fit counts as absent.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from slc_ops.base.digests import digest_json
from slc_ops.base.errors import SlcError
from slc_ops.base.files import read_json, replacing_directory, write_json
from slc_ops.base.methods import method_named
from slc_ops.evidence.folds import Fold
from slc_ops.evidence.scoring import (
    KEY,
    PARAMETERS,
    SCORE,
    USERS,
    Fitted,
    Score,
    as_older,
    score_directory,
    write_score,
)
from slc_ops.methods import FitOptions
from slc_ops.parameters.parameter_set import ParameterSet, Provenance
from slc_ops.refresh.files import SCORES
from slc_ops.refresh.plan import Plan, same_file
from slc_ops.settings.blocks import Decision

SUFFIX = "-key.json"


def fit_key(plan: Plan, fold: Fold, method: str, options: FitOptions) -> str:
    """Return the cache key of a fold's fit: the rows, those of the link, and the options that count."""
    known, planned = method_named(method), {window.log: window for window in plan.windows}
    forgets = known.forgets and bool(fold.older)
    paths = fold.older if forgets else fold.offsets if known.long_memory else fold.calibration
    rows: list[Any] = [planned[path].rows_key for path in paths]
    chosen: dict[str, Any] = {
        "prior_var": options.prior_var,
        "time_bins": options.time_bins,
        "engine": plan.settings["engine"],
    }
    if known.long_memory:  # the time between windows counts
        rows += [[each.rows_key for each in plan.earlier]] if plan.earlier else []
        chosen["windows"] = [planned[path].window.key for path in paths]
    if known.forgets:  # its blocks are chosen on the long memory
        forget = [len(fold.offsets) if forgets else 0, plan.settings["forget"]]
        chosen |= {"effects": options.effects, "forget": forget}
    return digest_json([rows, len(fold.calibration), method, chosen])


def keep_key(parameters: Path, key: str, seconds: float) -> None:
    """Store the key of the fit in ``parameters``."""
    write_json(_beside(parameters), {"key": key, "seconds": seconds})


def forget_key(parameters: Path) -> None:
    """Delete the key before other parameters replace the fit."""
    _beside(parameters).unlink(missing_ok=True)


def _beside(parameters: Path) -> Path:
    return parameters.with_name(parameters.name + SUFFIX)


def kept_fit(plan: Plan, method: str, key: str) -> Fitted | None:
    """Return an earlier refresh's fit under this key, without its provenance, or None."""
    for path in _kept(plan, f"*parameters{SUFFIX}"):
        with suppress(SlcError, OSError, ValueError, KeyError, TypeError):
            found = read_json(path)
            if found["key"] == key:
                known = ParameterSet.read(path.with_name(path.name.removesuffix(SUFFIX)))
                if known.method == method:
                    origin = Provenance(prior_mean=known.provenance.prior_mean)
                    return Fitted(replace(known, provenance=origin), float(found["seconds"]))
    return None


def score_key(plan: Plan, fold: Fold, method: str, options: FitOptions, rules: Decision) -> str:
    """Return the cache key of a fold's score; empty if its test rows are part of a window."""
    if fold.test is None:
        return ""
    tuned = [rules.prior_vars, rules.time_bins]
    test = next(window.rows_key for window in plan.windows if window.log == fold.test)
    return digest_json([fit_key(plan, fold, method, options), test, fold.window.as_dict(), *tuned])


def reuse_score(plan: Plan, fold: Fold, method: str, key: str) -> bool:
    """Copy an earlier refresh's score with the same key; return False without one."""
    target = score_directory(plan.files.scores, fold, method)
    if not key or fold.newest or target.exists():
        return False
    for found in _kept(plan, f"{SCORES}/{fold.key}/{method}/{KEY}"):
        if read_json(found) != key or not (found.parent / USERS).exists():  # an erasure deletes sums by user
            continue
        score = Score.from_dict(read_json(found.parent / SCORE))
        if score.error is None:  # an error may have been temporary; the fold is scored again
            with replacing_directory(target) as temporary:
                for path in [found.parent / USERS, *sorted((found.parent / PARAMETERS).glob("*"))]:
                    same_file(path, temporary / path.relative_to(found.parent))
                write_score(temporary, as_older(score), key)
            return True
    return False


def _kept(plan: Plan, pattern: str) -> Iterator[Path]:
    """Yield the files of all refreshes, newest window first: most are wanted from the window before."""
    for window in sorted(plan.files.refreshes.glob("[!.]*"), reverse=True):
        yield from sorted(window.glob(f"[!.]*/{pattern}"), reverse=True)
