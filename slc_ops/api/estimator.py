"""``ItemCalibrator``: the correction methods as a scikit-learn estimator.

It is the last step of a pipeline: the input is a frozen model's score and an item, the output a corrected
probability. The fit is bit-identical to ``slc-ops fit``.
"""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin  # noqa: TID253 - it derives from them
from sklearn.utils.multiclass import check_classification_targets  # noqa: TID253 - imported on demand with it
from sklearn.utils.validation import (  # noqa: TID253 - this module needs scikit-learn
    _check_sample_weight,
    assert_all_finite,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from slc_ops.api.columns import Column, Table, item_ids, numbers_or_times, score_column, times
from slc_ops.api.errors import BadOption, CannotFit, FrameError, as_value_errors
from slc_ops.api.explaining import Explanation, ItemRates, explain
from slc_ops.api.frozen import frozen_logits
from slc_ops.base.buffers import as_arrow
from slc_ops.base.errors import ColumnError
from slc_ops.base.methods import method_named
from slc_ops.methods.fitting.calibration import Calibration
from slc_ops.methods.fitting.options import FitOptions
from slc_ops.methods.origin import fit_with_origin
from slc_ops.numerics.kernels import sigmoid
from slc_ops.parameters.parameter_set import ParameterSet
from slc_ops.rows.columns import as_logits
from slc_ops.rows.frames import as_table, is_frame
from slc_ops.rows.interactions import InteractionLog
from slc_ops.rows.reading import TableSource

if TYPE_CHECKING:
    from slc_ops.rows.frames import Frame

Floats = NDArray[np.float64]


class ItemCalibrator(TransformerMixin, ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # untyped library
    """Correct a frozen binary classifier item by item.

    Args:
        method: Name of a method (``slc_ops.methods.METHODS``); ``slc_eb`` chooses its own shrinkage.
        item: The item column, by name or position. Methods that use only the score accept None.
        logit: The column of the frozen model's logits.
        probability: Instead of ``logit``: the column of its probabilities, clipped to [1e-6, 1 − 1e-6].
        estimator: Instead of either: the fitted classifier itself, in a
            `sklearn.frozen.FrozenEstimator`, so that clones keep its fit. It receives the columns of its
            own fit and is never refitted here.
        time: The column of event times (timestamps or sortable numbers). Methods by time need it;
            ``slc_eb`` then chooses its shrinkage on each user's latest rows.
        user: The column of users, for the same choice.
        group: The column of groups (a skill, a carrier, a genre) for ``slc_mix``; a row may lack its
            group.
        user_effect: Allow ``slc_mix`` to correct by user, too. The fit then holds a table of users, which
            is personal data.
        prior_var: Prior variance of the item offsets; ``slc_eb`` estimates it instead.
        time_bins: Number of time bins of methods by item and time.
        n_jobs: Threads; None is one per core. It never changes a result.
    Without ``logit``, ``probability`` and ``estimator`` the score is the column "logit" or "probability" of
    the frame. pandas, Polars and Arrow frames are accepted. A plain array needs positions:
    ``ItemCalibrator(item=0, logit=1)``.

    Attributes:
        parameters_: The fitted `ParameterSet`.
        classes_: The two labels, in the order of the probabilities.
        n_features_in_: Number of columns in the fit.
        feature_names_in_: Names of these columns, if they are text.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> item, score = rng.integers(0, 20, 2000), rng.normal(0, 1, 2000)
    >>> bias = rng.normal(0, 1, 20)[item]
    >>> right = rng.random(2000) < 1 / (1 + np.exp(-score - bias))
    >>> frame = {"problem": item, "score": score}
    >>> calibrator = ItemCalibrator(item="problem", logit="score").fit(frame, right)
    >>> calibrator.predict_proba({"problem": [3, 99], "score": [0.0, 0.0]}).shape
    (2, 2)
    """

    def __init__(
        self,
        method: str = "slc_eb",
        *,
        item: Column | None = "item_id",
        logit: Column | None = None,
        probability: Column | None = None,
        estimator: Any = None,
        time: Column | None = None,
        user: Column | None = None,
        group: Column | None = None,
        user_effect: bool = False,
        prior_var: float = 1.0,
        time_bins: int = 10,
        n_jobs: int | None = None,
    ) -> None:
        self.method = method
        self.item = item
        self.logit = logit
        self.probability = probability
        self.estimator = estimator
        self.time = time
        self.user = user
        self.group = group
        self.user_effect = user_effect
        self.prior_var = prior_var
        self.time_bins = time_bins
        self.n_jobs = n_jobs

    # --- scikit-learn interface -----------------------------------------------------------------------

    def fit(self, X: "Frame", y: Any, sample_weight: Any = None) -> Self:
        """Fit to rows that the frozen model was not trained on.

        Args:
            X: The frame or array with the item and the score.
            y: The labels, of two classes; probabilities refer to the greater one.
            sample_weight: A weight ≥ 0 for each row.

        Raises:
            FrameError: Unusable rows or columns (a ``ValueError``).
            CannotFit: The labels have only one class, or the method cannot be fitted to these rows.
            BadOption: An invalid argument.
        """
        with as_value_errors():
            table, label = self._checked(X, y)
            log = self._log(table, X, label, sample_weight)
            _warn_of_probabilities(log)
            options = FitOptions(
                prior_var=self.prior_var,
                time_bins=self.time_bins,
                threads=self._threads(),
                effects=("item", "slope", "group", *(["user"] if self.user_effect else [])),
            )
            calibration = Calibration(log, options=options)
            self.parameters_ = fit_with_origin(self.method, calibration)
            self.item_rates_ = ItemRates.of(calibration) if self._per_item else None
        return self

    def predict_proba(self, X: "Frame") -> Floats:
        """Return corrected probabilities, one column per class; unseen items get the link without an offset.

        A row without an item counts as an unseen item. If columns are named, only those that the method uses
        are required: no users and, for most methods, no times. Groups and users are used if the fit corrects
        by them; without their column all rows count as unknown.

        Raises:
            FrameError: Missing columns, a score that is not a number, or items of another type.
        """
        check_is_fitted(self)
        with as_value_errors():
            _, corrected = self._base_and_corrected(X)
        return np.column_stack([1.0 - corrected, corrected])

    def predict(self, X: "Frame") -> NDArray[Any]:
        """Return the more likely class of each row."""
        positive = self.predict_proba(X)[:, 1] > 0.5  # a tie gives the first class, as in argmax
        labels: NDArray[Any] = self.classes_[positive.astype(np.intp)]
        return labels

    def transform(self, X: "Frame") -> Floats:
        """Return ``p_base`` and ``p_corrected`` of each row, the columns that ``slc-ops apply`` adds.

        `set_output` changes the result to a pandas or Polars frame.
        """
        check_is_fitted(self)
        with as_value_errors():
            return np.column_stack(self._base_and_corrected(X))

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the column names of `transform`."""
        check_is_fitted(self)
        return np.asarray(["p_base", "p_corrected"], dtype=object)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "parameters_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = True  # it uses one score and one item, no other features
        tags.input_tags.string = tags.input_tags.categorical = True
        tags.target_tags.required = True
        return tags

    # --- inspection and storage -----------------------------------------------------------------------

    def explain(
        self,
        item: str | int,
        data: "Frame | None" = None,
        y: Any = None,
        *,
        effect: str = "item",
        group: str | int | None = None,
        user: str | int | None = None,
    ) -> Explanation:
        """Explain the correction of an item: a sentence, a table, a figure.

        Args:
            item: An item; an unseen one is explained as a cold start.
            data: Rows to count instead of those of the fit; a calibrator loaded from a directory has none.
            y: The labels of ``data``.
            effect: ``group`` or ``user`` if ``item`` is the id of one.
            group: The item's group, to show each block's contribution to the logit.
            user: A user, for the same purpose.

        Raises:
            BadOption: The method does not correct by ``effect``.
        """
        check_is_fitted(self)
        with as_value_errors():
            rates = self.item_rates_
            if data is not None:
                table = Table(data if is_frame(data) else np.asarray(data))
                label = np.searchsorted(self.classes_, np.asarray(y)).astype(np.int8)
                rates = ItemRates.of(Calibration(self._log(table, data, label, None)))
            return explain(self.parameters_, item, rates, effect, group=group, user=user)

    def save(self, directory: str | Path) -> Path:
        """Write the parameter set for ``slc-ops apply``, a corrector and `slc_ops.load`; return its path.

        It contains neither the frozen model nor labels other than 0 and 1.
        """
        check_is_fitted(self)
        with as_value_errors():
            self.parameters_.write(Path(directory))
        return Path(directory)

    # --- reading rows ---------------------------------------------------------------------------------

    @property
    def _per_item(self) -> bool:
        return method_named(self.method).per_item

    def _threads(self) -> int | None:
        return None if self.n_jobs is None or self.n_jobs < 0 else self.n_jobs

    def _table(self, X: "Frame", *, reset: bool) -> Table:
        """Return the rows, validated as in scikit-learn: the same columns as in the fit."""
        if not is_frame(X):
            return Table(validate_data(self, X, reset=reset, dtype=None))
        table = Table(X)
        # Named columns are unambiguous, and a prediction needs fewer columns than a fit.
        used = (self.item, self.logit, self.probability, self.time, self.user, self.group)
        named = self.estimator is None and all(isinstance(each, str | None) for each in used)
        if reset or (hasattr(self, "n_features_in_") and not named):  # absent in a loaded calibrator
            # scikit-learn before 1.9 finds names by a protocol that Polars 2 removed
            frame = X if hasattr(X, "__dataframe__") else as_table(X)
            validate_data(self, frame, reset=reset, skip_check_array=True)
        return table

    def _checked(self, X: "Frame", y: Any) -> tuple[Table, NDArray[np.int8]]:
        """Validate rows and labels of a fit; return the labels as 0 and 1."""
        method = method_named(self.method)
        if y is None:
            raise FrameError(
                "ItemCalibrator requires y to be passed, but the target y is None; pass the labels"
            )
        table = self._table(X, reset=True)
        if method.per_item and self.item is None:
            raise BadOption(f"{self.method} corrects items; name their column with item=")
        if self.user_effect and ("user" not in method.looks_at or self.user is None):
            raise BadOption("user_effect=True is for slc_mix, and needs the column of users: user=")
        labels = column_or_1d(np.asarray(y), warn=True)
        if len(labels) == 0:
            raise FrameError("X and y have no rows; expected at least one of each class")
        assert_all_finite(labels, input_name="y")
        check_classification_targets(labels)
        self.classes_, codes = np.unique(labels, return_inverse=True)
        if len(self.classes_) != 2:
            found = ", ".join(str(value) for value in self.classes_[:5])
            reason = "Only binary classification is supported. " if len(self.classes_) > 2 else ""
            raise CannotFit(f"{reason}y holds {len(self.classes_)} class(es) ({found}); expected two")
        return table, codes.astype(np.int8)

    def _log(self, table: Table, X: "Frame", label: NDArray[np.int8], sample_weight: Any) -> InteractionLog:
        """Return the rows as a log that keeps the caller's column names for messages."""
        columns: dict[str, pa.Array] = {}
        rename: dict[str, str] = {}

        def add(contract: str, name: str, values: pa.Array) -> None:
            if len(values) != len(label):
                raise FrameError(
                    f"Found input variables with inconsistent numbers of samples: X has {len(values)} rows, "
                    f"y has {len(label)}"
                )
            unused = name if name not in columns else f"{name} ({contract})"
            columns[unused], rename[contract] = values, unused

        if self.item is not None and (self._per_item or table.has(self.item)):
            add("item_id", table.name(self.item), item_ids(table, self.item))
        else:
            add("item_id", "item_id", as_arrow(np.zeros(len(label), np.int64)))
        kind, name, score = self._score(table, X)
        add(kind, name, score)
        add("label", "y", as_arrow(label))
        if self.time is not None:
            add("event_time", table.name(self.time), numbers_or_times(table, "time", self.time))
        if self.user is not None:
            add("user_id", table.name(self.user), item_ids(table, self.user, argument="user"))
        if self.group is not None:
            add("group_id", table.name(self.group), group_ids(table, self.group))
        if sample_weight is not None:
            weight = _check_sample_weight(sample_weight, np.empty((len(label), 1)), ensure_non_negative=True)
            add("weight", "sample_weight", as_arrow(np.asarray(weight, np.float64)))
        return InteractionLog(TableSource(pa.table(columns), "X"), rename=rename, times=True)

    def _score(self, table: Table, X: "Frame") -> tuple[str, str, pa.Array]:
        """Return kind ("logit" or "probability"), name and values of the score."""
        if self.estimator is not None:
            if self.logit is not None or self.probability is not None:
                raise BadOption("estimator= is given beside logit= or probability=; the score is one of them")
            others = (self.item, self.time, self.user, self.group)
            unused = [column for column in others if column is not None]
            return frozen_logits(self.estimator, table, X, unused)
        kind, column = score_column(table, self.logit, self.probability)
        return kind, table.name(column), numbers_or_times(table, kind, column)

    def _base_and_corrected(self, X: "Frame") -> tuple[Floats, Floats]:
        table = self._table(X, reset=False)
        parameters: ParameterSet = self.parameters_
        kind, name, values = self._score(table, X)
        try:
            logit = as_logits(values, kind, 0).astype(np.float64)
        except ColumnError as error:
            error.where, error.called = "X", name
            raise
        time = None
        if parameters.needs_time and self.time is not None:
            time = times(table, self.time)
        ids = None
        if parameters.items is not None and self.item is not None:
            ids = item_ids(table, self.item, parameters.items.schema.field("id").type)
        groups = users = None
        if "group" in parameters.effects and self.group is not None and table.has(self.group):
            groups = group_ids(table, self.group)
        if "user" in parameters.effects and self.user is not None and table.has(self.user):
            users = item_ids(table, self.user, parameters.effects["user"].ids.type)
        return sigmoid(logit), parameters.correct(ids, logit, time, groups=groups, users=users)


def load(
    directory: str | Path,
    *,
    item: Column | None = "item_id",
    logit: Column | None = None,
    probability: Column | None = None,
    time: Column | None = None,
) -> ItemCalibrator:
    """Load a fitted calibrator from a parameter set of ``slc-ops fit``, a refresh or ``save``.

    Digests, schema version and golden vectors are verified. The column arguments name the columns that
    ``predict_proba`` reads; the classes are 0 and 1. Needs the extra ``sklearn``.

    Raises:
        ParameterSetError: The set is incomplete, altered, or of an unknown schema version.
    """
    with as_value_errors():
        parameters = ParameterSet.read(Path(directory))
    calibrator = ItemCalibrator(parameters.method, item=item, logit=logit, probability=probability, time=time)
    calibrator.parameters_, calibrator.item_rates_ = parameters, None
    calibrator.classes_ = np.array([0, 1])
    return calibrator


def _warn_of_probabilities(log: InteractionLog) -> None:
    """Warn if all "logits" lie in [0, 1] and the labels are more likely under probabilities."""
    if not log.has("logit") or not log.n_rows:
        return
    logit, label, weight = log.logit, log.label, log.weight
    if not (0 <= logit.min() < logit.max() <= 1):
        return
    read_as = as_logits(as_arrow(logit), "probability", 0)
    signs = 1.0 - 2.0 * label
    as_given, otherwise = (float(weight @ np.logaddexp(0.0, signs * each)) for each in (logit, read_as))
    if otherwise < as_given:
        warnings.warn(
            f"all logits (column {log.called('logit')!r}) lie between {logit.min():g} and {logit.max():g}, "
            "and the labels are likelier if they are probabilities: pass the column as probability=",
            UserWarning,
            stacklevel=4,
        )


def group_ids(table: Table, column: Column) -> pa.Array:
    """Return the groups as text, null for rows without one; integers become decimal digits."""
    values = table.read("group", column)
    if pa.types.is_floating(values.type):  # pandas stores integers with nulls as floats
        values = pc.cast(pc.if_else(pc.is_nan(values), None, values), pa.int64())
    return pc.cast(values, pa.string())
