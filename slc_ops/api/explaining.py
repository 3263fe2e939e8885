"""Why an item is corrected as it is: what its rows said, how much of it is believed, what it changes."""

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from slc_ops.api.errors import BadOption
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
    """What the rows of a fit said about each item."""

    items: pa.Array
    rows: Floats
    observed: Floats
    """Σ weight · label."""
    predicted: Floats
    """Σ weight · the frozen model's probability."""

    @classmethod
    def of(cls, calibration: Calibration) -> "ItemRates":
        """From the sums that the fit has made already."""
        sums = calibration.item_sums
        return cls(calibration.log.items, sums.n, sums.y, sums.p)

    def find(self, item: str | int) -> tuple[float, float, float] | None:
        """Rows, observed and predicted rate of an item."""
        k = IdIndex(self.items).position(item)
        if k < 0:
            return None
        n = float(self.rows[k])
        return None if n == 0 else (n, float(self.observed[k]) / n, float(self.predicted[k]) / n)


@dataclass(frozen=True)
class Explanation:
    """One item of a fitted calibrator.

    Attributes:
        rows: Its rows in the fit (their weights, where rows have weights); 0 is a cold start.
        observed: The share of rows with the positive label; None where the rows are not known.
        predicted: The frozen model's mean probability on the same rows.
        raw: What the rows alone say about the logit, unshrunken; None where they say nothing.
        shrinkage: How much of it is believed, from 0 to 1.
        offset: What is added to the logit.
        low, high: The offset's interval (its posterior, 95 %), where the method has one.
        before, after: The probability at the item's usual score, from the frozen model and corrected; at ½
            where the rows are not known.
        link_only: The same for an unseen item.
        effect: What ``item`` is one of: an ``item``, a ``group`` or a ``user``.
        blocks: What each block adds to the logit at the item's usual score (``item``, ``slope``, ``group``,
            ``user``), of methods that have several.
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
        """All of it in words."""
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
            seen += ", whose rates a saved set does not keep (explain(item, rows, labels) counts them anew)"
            at = "Where the frozen model is undecided the probability goes"
        bounds = "" if self.low is None else f" [{signed(self.low, 2)}, {signed(self.high, 2)}]"
        alone = "" if self.raw is None else f"Alone they say {signed(self.raw, 2)} logit; "
        return (
            f"{seen}. {alone}{share(self.shrinkage)} of that is believed, so its offset is "
            f"{signed(self.offset, 2)}{bounds}. {at} from "
            f"{share(self.before, 1)} to {share(self.after, 1)} (an unseen {self.effect}: "
            f"{share(self.link_only, 1)}).{self._blocks_in_words}"
        )

    @property
    def _blocks_in_words(self) -> str:
        """What each block adds, where there are several."""
        if len(self.blocks) < 2:
            return ""
        parts = [f"{_BLOCKS[name]} {signed(value, 2)}" for name, value in self.blocks.items()]
        return f" To the logit {', '.join(parts[:-1])} and {parts[-1]} are added."

    def as_dict(self) -> dict[str, Any]:
        """All figures, for machines."""
        return {**asdict(self), "sentence": self.sentence}

    def plot(self) -> Any:
        """The raw estimate and what is left of it, with its interval, as a matplotlib figure."""
        from slc_ops.api.figures import draw_explanation

        return draw_explanation(self)

    def __repr__(self) -> str:
        return self.sentence

    def _repr_html_(self) -> str:
        from slc_ops.api.pages import svg_of, table_html

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
    """An item, or the id of another effect, under a parameter set, with what is known of its rows.

    ``group`` and ``user`` are those of a row of the item.
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
    """What each block adds to the logit; of methods that have more than the items' offsets."""
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
    """A figure of the id; of several time bins the newest, which serves."""
    if own is None or name not in own.column_names:
        return None
    value = own.column(name)[-1].as_py()
    return None if value is None else float(value)
