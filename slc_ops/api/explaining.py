"""Explain the correction of one item: its rows, its shrinkage and its effect on a probability."""

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from slc_ops.api.errors import BadOption
from slc_ops.api.figures import draw_explanation
from slc_ops.api.pages import svg_of, table_html
from slc_ops.base.buffers import as_numpy
from slc_ops.base.ids import IdIndex
from slc_ops.base.text import MISSING, count, number, share, signed
from slc_ops.evidence.detectability import z_two_sided
from slc_ops.methods.fitting.calibration import Calibration
from slc_ops.numerics.kernels import Floats
from slc_ops.parameters.parameter_set import ParameterSet

CONFIDENCE = 0.95
_BLOCKS = {"item": "the item", "slope": "its slope", "group": "the group", "user": "the user"}


@dataclass(frozen=True)
class ItemRates:
    """Row counts and rates of each item in a fit."""

    items: pa.Array
    rows: Floats
    observed: Floats
    """Σ weight · label."""
    predicted: Floats
    """Σ weight · the frozen model's probability."""

    @classmethod
    def of(cls, calibration: Calibration) -> "ItemRates":
        """Build from the sums of the fit, without a further pass over the rows."""
        sums = calibration.item_sums
        return cls(calibration.log.items, sums.n, sums.y, sums.p)

    def find(self, item: str | int) -> tuple[float, float, float] | None:
        """Return the number of rows and the observed and predicted rates; None without rows."""
        k = IdIndex(self.items).position(item)
        if k < 0:
            return None
        n = float(self.rows[k])
        return None if n == 0 else (n, float(self.observed[k]) / n, float(self.predicted[k]) / n)


@dataclass(frozen=True)
class Explanation:
    """One item of a fitted calibrator.

    Attributes:
        rows: Number of rows in the fit (sum of weights, if rows have weights); 0 is a cold start.
        observed: The share of rows with the positive label; None if the rows are unavailable.
        predicted: The frozen model's mean probability on the same rows.
        raw: The unshrunken estimate from the rows, in logit; None if the shrinkage is 0.
        shrinkage: The share of the raw estimate that is kept, from 0 to 1.
        offset: The correction that is added to the logit.
        low, high: The offset's 95 % posterior interval, if the method has one.
        before, after: The frozen and the corrected probability at the item's usual score; at ½ if the
            rows are unavailable.
        link_only: The corrected probability of an unseen item at the same score.
        effect: The kind of ``item``: ``item``, ``group`` or ``user``.
        blocks: Each block's contribution to the logit at the usual score (``item``, ``slope``, ``group``,
            ``user``), for methods with several.
    """

    item: str | int
    method: str
    rows: float
    observed: float | None
    predicted: float | None
    raw: float | None
    shrinkage: float
    offset: float
    low: float | None
    high: float | None
    before: float
    after: float
    link_only: float
    effect: str = "item"
    blocks: dict[str, float] = field(default_factory=dict)

    @property
    def sentence(self) -> str:
        """The explanation as text."""
        if self.rows == 0:
            return (
                f"{self.item} is not in the calibration rows: only the link applies, which makes "
                f"{share(self.after, 1)} of the frozen model's {share(self.before, 1)}."
            )
        seen = f"{self.item} has {count(self.rows)} rows"
        at = "At its usual score the probability goes"
        if self.observed is not None and self.predicted is not None:
            seen += (
                f": {share(self.observed, 1)} positive where the frozen model said {share(self.predicted, 1)}"
            )
        else:
            seen += ", whose rates a saved set does not store (explain(item, rows, labels) computes them)"
            at = "Where the frozen model is undecided the probability goes"
        bounds = "" if self.low is None else f" [{signed(self.low, 2)}, {signed(self.high, 2)}]"
        alone = "" if self.raw is None else f"Their own estimate is {signed(self.raw, 2)} logit; "
        return (
            f"{seen}. {alone}{share(self.shrinkage)} of it remains after shrinkage, so the offset is "
            f"{signed(self.offset, 2)}{bounds}. {at} from "
            f"{share(self.before, 1)} to {share(self.after, 1)} (an unseen {self.effect}: "
            f"{share(self.link_only, 1)}).{self._blocks_in_words}"
        )

    @property
    def _blocks_in_words(self) -> str:
        """The contribution of each block as text; empty with fewer than two."""
        if len(self.blocks) < 2:
            return ""
        parts = [f"{_BLOCKS[name]} {signed(value, 2)}" for name, value in self.blocks.items()]
        return f" To the logit {', '.join(parts[:-1])} and {parts[-1]} are added."

    def as_dict(self) -> dict[str, Any]:
        """Return all figures and the sentence."""
        return {**asdict(self), "sentence": self.sentence}

    def plot(self) -> Any:
        """Plot the raw and the shrunken estimate with its interval as a matplotlib figure."""
        return draw_explanation(self)

    def __repr__(self) -> str:
        return self.sentence

    def _repr_html_(self) -> str:
        rows = [
            ("rows", count(self.rows)),
            ("observed rate", share(self.observed, 1)),
            ("predicted rate", share(self.predicted, 1)),
            ("raw estimate, logit", signed(self.raw, 3)),
            ("shrinkage", number(self.shrinkage, 3)),
            ("offset, logit", signed(self.offset, 3)),
            (
                "95 % interval",
                MISSING if self.low is None else f"{signed(self.low, 3)} … {signed(self.high, 3)}",
            ),
            ("probability", f"{share(self.before, 1)} → {share(self.after, 1)}"),
        ]
        rows += [(f"{_BLOCKS[name]} adds, logit", signed(value, 3)) for name, value in self.blocks.items()]
        return table_html(self.sentence, ["", str(self.item)], rows) + svg_of(self.plot())


def explain(
    parameters: ParameterSet,
    wanted: str | int,
    rates: ItemRates | None,
    effect: str = "item",
    *,
    group: str | int | None = None,
    user: str | int | None = None,
) -> Explanation:
    """Explain an item, or the id of another effect, under a parameter set.

    ``group`` and ``user`` belong to a row of the item.

    Raises:
        BadOption: The set has no such effect.
    """
    if effect not in parameters.effects:
        others = f"; it corrects by {', '.join(parameters.effects)}" if parameters.effects else ""
        raise BadOption(
            f"{parameters.method} corrects no {effect}s: every {effect} has the same curve{others}"
        )
    own = parameters.effects[effect].of(wanted)
    found = None if rates is None or effect != "item" else rates.find(wanted)
    n, observed, predicted = found or (_rows(own), None, None)
    offset = _value(own, "offset") or 0.0
    shrinkage = _value(own, "shrinkage") or 0.0
    variance = _value(own, "offset_var")
    reach = None if variance is None else z_two_sided(1 - CONFIDENCE) * float(np.sqrt(variance))
    before = 0.5 if predicted is None else min(max(predicted, 1e-6), 1 - 1e-6)
    logit = float(np.log(before) - np.log1p(-before))
    ids = {"item": None, "group": group, "user": user, effect: wanted}
    return Explanation(
        item=wanted,
        method=parameters.method,
        rows=n if own is not None else 0.0,
        observed=observed,
        predicted=predicted,
        raw=offset / shrinkage if shrinkage > 0 else None,
        shrinkage=shrinkage,
        offset=offset,
        low=None if reach is None else offset - reach,
        high=None if reach is None else offset + reach,
        before=before,
        after=parameters.correct_one(ids["item"], logit, group=ids["group"], user=ids["user"]),
        link_only=parameters.correct_one(None, logit),
        effect=effect,
        blocks=_blocks(parameters, ids, logit),
    )


def _blocks(parameters: ParameterSet, ids: dict[str, Any], logit: float) -> dict[str, float]:
    """Return each block's contribution to the logit; empty for methods with item offsets only."""
    found: dict[str, float] = {}
    for name, effect in parameters.effects.items():
        own = None if ids[name] is None else effect.of(str(ids[name]) if name == "group" else ids[name])
        found[name] = _value(own, "offset") or 0.0
        if "slope" in effect.table.column_names:
            found["slope"] = (_value(own, "slope") or 0.0) * (logit - parameters.logit_mean)
    return {name: found[name] for name in _BLOCKS if name in found} if len(found) > 1 else {}


def _rows(own: pa.Table | None) -> float:
    return (
        0.0
        if own is None or "n_obs" not in own.column_names
        else float(np.sum(as_numpy(own.column("n_obs"))))
    )


def _value(own: pa.Table | None, name: str) -> float | None:
    """Return a figure of the id; with several time bins that of the last, which serves."""
    if own is None or name not in own.column_names:
        return None
    value = own.column(name)[-1].as_py()
    return None if value is None else float(value)
