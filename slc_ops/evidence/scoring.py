"""Score methods on one fold: fit on the calibration rows, score the test rows, store the results.

All methods share the fold's rows. The size of a score does not grow with the rows: metrics, slices and
reliability bins as JSON, the users' sums as Parquet. Each score is written to its own directory as soon as it
is finished and is never computed twice, even if other methods fail.
"""

import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from slc_ops.base.buffers import as_numpy
from slc_ops.base.errors import FitError, InputError
from slc_ops.base.files import read_json, replacing_directory, understanding, write_json
from slc_ops.base.json_form import OwnForm
from slc_ops.base.methods import method_named
from slc_ops.base.parquet import read_parquet, write_parquet
from slc_ops.evidence.compare import shared_options, side_by_side
from slc_ops.evidence.evaluation import ALL_ROWS, evaluate, tied_logits
from slc_ops.evidence.folds import Fold, FoldRows
from slc_ops.evidence.metrics import Metrics
from slc_ops.evidence.tuning import tune
from slc_ops.evidence.uncertainty import UserSums, averaged
from slc_ops.evidence.within import Within
from slc_ops.methods import FitOptions, fit_prepared
from slc_ops.parameters.parameter_set import ParameterSet
from slc_ops.rows.engine import LOCAL, Engine
from slc_ops.settings.blocks import Decision

CHAMPION = "champion"
SCORE, KEY, USERS, ITEMS = "score.json", "key.json", "users.parquet", "items.parquet"
"""The files of a score's directory: the score, its cache key, the users' and the items' sums."""
SLICE_USERS = "slice-users.parquet"
"""The users' sums by slice; like the items' sums, on the newest window only."""
PARAMETERS = "parameters"
"""The directory of the fitted parameter set; renewals are compared with it."""
PARTS = ("positive", "negative", "placement")


@dataclass(frozen=True)
class Score(OwnForm):
    """The score of one method on one fold; ``error`` is the reason for missing metrics."""

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
    """The AUC within users and items, on the newest window only."""
    error: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        metrics = None if self.metrics is None else {**self.metrics.as_dict(), "tied": self.metrics.tied}
        return {**asdict(self), "metrics": metrics, "warnings": list(self.warnings)}

    @classmethod
    def from_dict(cls, value: dict[str, Any]) -> "Score":
        """Read the form of :meth:`as_dict`."""
        metrics = None if value["metrics"] is None else Metrics.from_dict(value["metrics"])
        return cls(**{**value, "metrics": metrics, "warnings": tuple(value["warnings"])})


@dataclass(frozen=True)
class Fitted:
    """A parameter set and the duration of its fit in seconds."""

    parameters: ParameterSet
    seconds: float


def score_fold(
    fold: Fold,
    methods: Sequence[str],
    directory: Path,
    *,
    options: FitOptions | None = None,
    rules: Decision | None = None,
    keys: Mapping[str, str] | None = None,
    fits: Mapping[str, Fitted] | None = None,
    engine: Engine = LOCAL,
) -> dict[str, Score]:
    """Score methods on one fold under ``directory``; the rows are opened once.

    Finished scores are only read. A method that cannot be fitted gets a score with ``error`` and does not
    stop the others. ``rules`` have the options to try; without them nothing is tuned. ``keys`` are the cache
    keys by method: a key covers all inputs of the score, and a later refresh finds the score by it. ``fits``
    are methods already fitted on these rows: they are only scored.
    """
    options, fits = options or FitOptions(), fits or {}
    fresh = [method for method in methods if method not in fits]
    rows = FoldRows(fold, engine, shared_options(options), fresh)

    def scored(method: str) -> Score:
        target = score_directory(directory, fold, method)
        if (target / SCORE).exists():
            return read_score(fold, method, directory)
        with replacing_directory(target) as temporary:
            score = _fit_and_score(rows, method, temporary, rules, fits.get(method))
            write_score(temporary, score, (keys or {}).get(method, ""))
        return score

    # A cluster engine parallelizes by itself.
    return side_by_side(methods, scored, options.workers if engine is LOCAL else 1)


def score_directory(directory: Path, fold: Fold, method: str) -> Path:
    """Return the directory of a method's score on a fold."""
    return directory / fold.key / method


def write_score(directory: Path, score: Score, key: str = "") -> None:
    """Write a score and its cache key, if any, to its directory."""
    if key:
        write_json(directory / KEY, key)
    write_json(directory / SCORE, score.as_dict(), sealed=True)


def key_of(directory: Path) -> str | None:
    """Return the cache key of a finished score; None without a score or a key."""
    if not (directory / SCORE).exists() or not (directory / KEY).exists():
        return None
    return str(read_json(directory / KEY))


def as_older(score: Score) -> Score:
    """Reduce a newest window's score to that of an older one: of the slices, only those by time stay."""
    return replace(score, slices=[each for each in score.slices if each["kind"] == "time"], within={})


def read_score(fold: Fold, method: str, directory: Path) -> Score:
    """Read a finished score; raise :class:`InputError` if there is none."""
    path = score_directory(directory, fold, method) / SCORE
    if not path.exists():
        raise InputError(f"{method} has no score on fold {fold.key} under {directory}; score it first")
    with understanding(path):
        return Score.from_dict(read_json(path))


def _fit_and_score(
    rows: FoldRows, method: str, directory: Path, rules: Decision | None, known: Fitted | None
) -> Score:
    options = rows.options
    try:
        if known is None and rules is not None:
            options = tune(method, rows, options, rules)
        found = known or fit_on(rows, method, options)
    except (FitError, InputError) as error:
        return Score(method, rows.fold.key, None, error=str(error))
    if method != "base":
        found.parameters.write(directory / PARAMETERS)
    return _score(rows, method, found.parameters, directory, options, found.seconds)


def fit_on(rows: FoldRows, method: str, options: FitOptions) -> Fitted:
    """Fit a method on a fold's rows."""
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

    ``key`` identifies the champion, so that another champion's score is not reused. If the champion gives
    the same answers as the fold's own fit of its method, that score is copied.
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
        columns = dict(zip(("n", "label", "prediction", "loss"), found.items, strict=True))
        write_parquet(pa.table({"item_id": test.items, **columns}), directory / ITEMS)
    return Score(
        method=name,
        fold=fold.key,
        metrics=found.metrics,
        n_calibration=rows.calibration.log.n_rows,
        options=_options(options),
        slope=None if (link := parameters.affine()) is None else link["a"],
        tied_logits=tied_logits(test, found.metrics) if name == "base" else None,
        seconds_fit=seconds,
        warnings=tuple(parameters.warnings),
        reliability=list(found.metrics.reliability),
        slices=[
            {"kind": part.kind, "name": part.name, "label": part.label, **part.metrics.as_dict()}
            for part in found.parts
        ],
        within=found.within,
    )


def read_parameters(fold: Fold, method: str, directory: Path) -> ParameterSet | None:
    """Read the parameters behind a score; None if the fit failed or was not stored."""
    path = score_directory(directory, fold, method) / PARAMETERS
    return ParameterSet.read(path) if path.exists() else None


def _write_users(path: Path, sums: dict[str, UserSums]) -> None:
    """Write the users' sums by slice key as one table."""
    tables = []
    for name, each in sums.items():
        slices = pa.array([name] * each.positive.size).dictionary_encode()
        columns = {part: getattr(each, part) for part in PARTS} | each.means
        tables.append(pa.table({"slice": slices, "rows": [each.rows] * len(slices), **columns}))
    write_parquet(pa.concat_tables(tables), path)


def read_users(directory: Path) -> UserSums:
    """Read the users' sums of a score over all rows."""
    return _users_of(read_parquet(directory / USERS))


def read_users_by_slice(directory: Path) -> dict[str, UserSums]:
    """Read the users' sums of all rows and by slice; only the newest window's score has slices."""
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
