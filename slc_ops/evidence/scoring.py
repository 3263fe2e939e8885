"""The methods on one fold: fit on the calibration rows, score the test rows, keep what the verdict needs.

All methods share the fold's rows. A score is small whatever their number: metrics, slices and reliability
bins as JSON, the users' sums as Parquet. Each method's is written to a directory of its own as soon as it is
known, so that a finished score is never computed twice, whatever happens to the others.
"""

import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slc_ops.base.buffers import as_numpy
from slc_ops.base.errors import FitError, InputError
from slc_ops.base.files import read_json, replacing, replacing_directory, understanding, write_json
from slc_ops.base.json_form import OwnForm
from slc_ops.base.methods import method_named
from slc_ops.base.parquet import read_parquet, write_parquet
from slc_ops.evidence.compare import shared_options, side_by_side
from slc_ops.evidence.evaluation import ALL_ROWS, evaluate, tied_logits
from slc_ops.evidence.fold_rows import FoldRows
from slc_ops.evidence.folds import Fold
from slc_ops.evidence.metrics import Metrics
from slc_ops.evidence.tuning import OptionGrid, tune
from slc_ops.evidence.uncertainty import UserSums, averaged
from slc_ops.evidence.within import Within
from slc_ops.methods import FitOptions, fit_prepared
from slc_ops.parameters.parameter_set import ParameterSet
from slc_ops.rows.engine import LOCAL, Engine

CHAMPION = "champion"
SCORE, KEY, USERS, ITEMS = "score.json", "key.json", "users.parquet", "items.parquet"
"""The files of a score's directory: the score, its cache key, the users' and the items' sums."""
SLICE_USERS = "slice-users.parquet"
"""And, as the items' sums on the newest window only: the users' sums by slice."""
PARAMETERS = "parameters"
"""And the fit itself, a parameter set: what renewals are measured against."""
PARTS = ("positive", "negative", "placement")


@dataclass(frozen=True)
class Score(OwnForm):
    """What one method is worth on one fold; ``error`` says why it has no numbers."""

    method: str
    fold: str
    metrics: Metrics | None
    n_calibration: int = 0
    options: dict[str, Any] = field(default_factory=dict)
    slope: float | None = None
    tied_logits: float | None = None
    seconds_fit: float | None = None
    warnings: tuple[str, ...] = ()
    reliability: list[dict[str, Any]] = field(default_factory=list)
    slices: list[dict[str, Any]] = field(default_factory=list)
    within: Within = field(default_factory=dict)
    """On the newest window only."""
    error: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """The JSON form."""
        metrics = None if self.metrics is None else {**self.metrics.as_dict(), "tied": self.metrics.tied}
        return {**asdict(self), "metrics": metrics, "warnings": list(self.warnings)}

    @classmethod
    def from_dict(cls, value: dict[str, Any]) -> "Score":
        """Read what :meth:`as_dict` wrote."""
        metrics = None if value["metrics"] is None else Metrics.from_dict(value["metrics"])
        return cls(**{**value, "metrics": metrics, "warnings": tuple(value["warnings"])})


@dataclass(frozen=True)
class Fitted:
    """A parameter set, and the seconds that its fit took."""

    parameters: ParameterSet
    seconds: float


def score_fold(
    fold: Fold,
    methods: Sequence[str],
    directory: Path,
    *,
    options: FitOptions | None = None,
    grid: OptionGrid | None = None,
    keys: Mapping[str, str] | None = None,
    fits: Mapping[str, Fitted] | None = None,
    engine: Engine = LOCAL,
) -> dict[str, Score]:
    """Score methods on one fold under ``directory``, all of them on rows that are opened once.

    A finished score is only read, and a method that cannot be fitted has a score that says why; neither
    stops the others. ``keys`` are the cache keys by method: a key names everything that the score depends on,
    where the caller knows it, and under it a later refresh finds the score. ``fits`` are methods fitted on
    these very rows before: they are only scored.
    """
    options, fits = options or FitOptions(), fits or {}
    fresh = [method_named(method) for method in methods if method not in fits]
    rows = FoldRows(
        fold,
        engine,
        shared_options(options),
        long_memory=any(method.long_memory for method in fresh),
        forgets=any(method.forgets for method in fresh),
    )

    def scored(method: str) -> Score:
        target = score_directory(directory, fold, method)
        if (target / SCORE).exists():
            return read_score(fold, method, directory)
        with replacing_directory(target) as temporary:
            score = _fit_and_score(rows, method, temporary, grid, fits.get(method))
            write_score(temporary, score, (keys or {}).get(method, ""))
        return score

    # A cluster has its own way to work on several things at a time.
    return side_by_side(methods, scored, options.workers if engine is LOCAL else 1)


def score_directory(directory: Path, fold: Fold, method: str) -> Path:
    """Where the score of a method on a fold lies."""
    return directory / fold.key / method


def write_score(directory: Path, score: Score, key: str = "") -> None:
    """Put a score, and its cache key, into its directory."""
    if key:
        write_json(directory / KEY, key)
    write_json(directory / SCORE, score.as_dict(), sealed=True)


def key_of(directory: Path) -> str | None:
    """The cache key of a finished score; None where there is no score, or one without a key."""
    if not (directory / SCORE).exists() or not (directory / KEY).exists():
        return None
    return str(read_json(directory / KEY))


def as_older(score: Score) -> Score:
    """What a newest window's score says once there is a newer one: of slices, the days."""
    return replace(score, slices=[each for each in score.slices if each["kind"] == "time"], within={})


def read_score(fold: Fold, method: str, directory: Path) -> Score:
    """A finished score."""
    path = score_directory(directory, fold, method) / SCORE
    if not path.exists():
        raise InputError(f"{method} has no score on fold {fold.key} under {directory}; score it first")
    with understanding(path):
        return Score.from_dict(read_json(path))


def _fit_and_score(
    rows: FoldRows, method: str, directory: Path, grid: OptionGrid | None, known: Fitted | None
) -> Score:
    options = rows.options
    try:
        if known is None and grid is not None:
            options = tune(method, rows, options, grid)
        found = known or _fit(rows, method, options)
    except (FitError, InputError) as error:
        return Score(method, rows.fold.key, None, error=str(error))
    if method != "base":
        found.parameters.write(directory / PARAMETERS)
    return _score(rows, method, found.parameters, directory, options, found.seconds)


def _fit(rows: FoldRows, method: str, options: FitOptions) -> Fitted:
    known = method_named(method)
    long, older = rows.long if known.long_memory else None, rows.older if known.forgets else None
    begun = time.perf_counter()
    parameters = fit_prepared(
        method,
        rows.calibration.under(options),
        None if long is None else long.under(options),
        None if older is None else older.under(options),
    )
    return Fitted(parameters, time.perf_counter() - begun)


def score_champion(rows: FoldRows, champion: ParameterSet, directory: Path, *, key: str = "") -> Score:
    """Score the champion's parameters on a fold's test rows.

    ``key`` names the champion: a score that another champion left in its place is not reused. A champion that
    learned from the fold's windows is the fold's own fit, and so is its score.
    """
    target = score_directory(directory, rows.fold, CHAMPION)
    if key and key_of(target) == key:
        return read_score(rows.fold, CHAMPION, directory)
    own = score_directory(directory, rows.fold, champion.method)
    fitted = read_parameters(rows.fold, champion.method, directory) if (own / SCORE).exists() else None
    with replacing_directory(target) as temporary:
        if fitted is not None and fitted.same_answers(champion):
            for path in own.glob("*.parquet"):
                shutil.copy(path, temporary)
            score = replace(
                read_score(rows.fold, champion.method, directory),
                method=CHAMPION,
                options=_options(FitOptions()),
                seconds_fit=None,
                warnings=tuple(champion.warnings),
            )
        else:
            score = _score(rows, CHAMPION, champion, temporary, FitOptions(), None)
        write_score(temporary, score, key)
    return score


def _options(options: FitOptions) -> dict[str, Any]:
    return {"prior_var": options.prior_var, "time_bins": options.time_bins}


def _score(
    rows: FoldRows,
    name: str,
    parameters: ParameterSet,
    directory: Path,
    options: FitOptions,
    seconds: float | None,
) -> Score:
    fold, test = rows.fold, rows.test
    found = evaluate(
        parameters, test, rows.slicings, items=fold.newest, within=fold.newest, threads=rows.options.threads
    )
    _write_users(directory / USERS, {ALL_ROWS: found.users})
    if by_slice := found.users_by_slice():
        _write_users(directory / SLICE_USERS, by_slice)
    if found.items is not None:
        _write_items(directory / ITEMS, test.items, found.items)
    return Score(
        method=name,
        fold=fold.key,
        metrics=found.metrics,
        n_calibration=rows.calibration.log.n_rows,
        options=_options(options),
        slope=slope_of(parameters),
        tied_logits=tied_logits(test, found.metrics) if name == "base" else None,
        seconds_fit=seconds,
        warnings=tuple(parameters.warnings),
        reliability=[asdict(each) for each in found.metrics.reliability],
        slices=[
            {"kind": part.kind, "name": part.name, "label": part.label, **part.metrics.as_dict()}
            for part in found.parts
        ],
        within=found.within,
    )


def slope_of(parameters: ParameterSet) -> float | None:
    """The slope of the link in the logit, where the method fitted one."""
    link = parameters.affine()
    return None if link is None else link["a"]


def read_parameters(fold: Fold, method: str, directory: Path) -> ParameterSet | None:
    """The fit behind a score; None where it failed, or was not kept."""
    path = score_directory(directory, fold, method) / PARAMETERS
    return ParameterSet.read(path) if path.exists() else None


def _write_users(path: Path, sums: dict[str, UserSums]) -> None:
    """The users' sums of all rows and of the slices that get intervals."""
    tables = [_users_table(name, each) for name, each in sums.items()]
    with replacing(path) as temporary:
        write_parquet(pa.concat_tables(tables), temporary)


def _users_table(name: str, sums: UserSums) -> pa.Table:
    columns = {part: getattr(sums, part) for part in PARTS} | sums.means
    size = sums.positive.size
    return pa.table(
        {"slice": pa.array([name] * size).dictionary_encode(), "rows": [sums.rows] * size, **columns}
    )


def read_users(directory: Path) -> UserSums:
    """The users' sums of a score."""
    return _users_of(read_parquet(directory / USERS))


def read_users_by_slice(directory: Path) -> dict[str, UserSums]:
    """The same of all rows and of every slice that has any: which the newest window's score has."""
    found, slices = {ALL_ROWS: read_users(directory)}, directory / SLICE_USERS
    if slices.exists():
        table = read_parquet(slices)
        names = table["slice"].cast(pa.string())
        for name in pc.unique(names).to_pylist():
            found[name] = _users_of(table.filter(pc.equal(names, name)))
    return found


def _users_of(table: pa.Table) -> UserSums:
    columns = {name: as_numpy(table[name]) for name in (*PARTS, *averaged())}
    means = {metric: columns.pop(metric) for metric in averaged()}
    return UserSums(**columns, means=means, rows=table["rows"][0].as_py())


def _write_items(path: Path, items: pa.Array, sums: np.ndarray) -> None:
    """Per item: weight (without weights: rows), labels, predictions and loss on the test rows."""
    columns = dict(zip(("n", "label", "prediction", "loss"), sums, strict=True))
    with replacing(path) as temporary:
        write_parquet(pa.table({"item_id": items, **columns}), temporary)
