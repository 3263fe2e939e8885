"""The curves of a parameter set, which map logit and offset to a probability: four small value objects.

Each has its formula and its JSON form, and is independent of items.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import exp
from typing import Any, ClassVar

import numpy as np

from slc_ops.base.errors import InputError, ParameterSetError
from slc_ops.numerics.kernels import Floats, sigmoid
from slc_ops.numerics.time_bins import time_bin


class Curve(ABC):
    """A map (η₀, δ, event time) → probability."""

    kind: ClassVar[str]

    @abstractmethod
    def probability(self, logit: Floats, offset: Floats | float, time: Floats | None) -> Floats:
        """Return the probability of each row."""

    def score(self, logit: Floats, offset: Floats | float, time: Floats | None) -> Floats:
        """Return a number that orders rows like their probabilities, with full resolution near 1."""
        return self.probability(logit, offset, time)

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        values = vars(self).items()
        return {"kind": self.kind, **{k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in values}}


@dataclass(frozen=True)
class Affine(Curve):
    """p = σ(a·η₀ + b₀ + δ).

    >>> Affine(a=2.0, b0=-1.0).probability(np.array([0.5]), 0.0, None).tolist()
    [0.5]
    """

    a: float = 1.0
    b0: float = 0.0
    kind: ClassVar[str] = "affine"

    def probability(self, logit: Floats, offset: Floats | float, time: Floats | None) -> Floats:
        return sigmoid(self.a * logit + self.b0 + offset)

    def score(self, logit: Floats, offset: Floats | float, time: Floats | None) -> Floats:
        # η/a − b₀/a: without offsets the logit itself, so that this link cannot change the order.
        if self.a == 0:
            return np.zeros_like(logit) + offset
        return logit + offset / self.a if self.a > 0 else -logit - offset / self.a

    def probability_of_one(self, logit: float, offset: float) -> float:
        """Return the probability of one row, without NumPy's overhead per call."""
        eta = self.a * logit + self.b0 + offset
        e = exp(-abs(eta))
        return 1.0 / (1.0 + e) if eta >= 0 else e / (1.0 + e)


@dataclass(frozen=True)
class AffineInTime(Curve):
    """p = σ(a·η₀ + c·t̃ + b₀ + δ) with t̃ = (event time − mean) / sd of the calibration window."""

    a: float
    b0: float
    c: float
    time_mean: float
    time_sd: float
    kind: ClassVar[str] = "affine_in_time"

    def probability(self, logit: Floats, offset: Floats | float, time: Floats | None) -> Floats:
        return sigmoid(self.score(logit, offset, time))

    def score(self, logit: Floats, offset: Floats | float, time: Floats | None) -> Floats:
        if time is None:
            raise InputError("this parameter set needs event_time for every row; none was given")
        standard = (time - self.time_mean) / self.time_sd
        return self.a * logit + self.c * standard + self.b0 + offset


@dataclass(frozen=True)
class Isotonic(Curve):
    """A non-decreasing piecewise linear function of σ(η₀ + δ), constant beyond its first and last knot."""

    x: Floats
    y: Floats
    kind: ClassVar[str] = "isotonic"

    def probability(self, logit: Floats, offset: Floats | float, time: Floats | None) -> Floats:
        return np.asarray(np.interp(sigmoid(logit + offset), self.x, self.y))


@dataclass(frozen=True)
class Histogram(Curve):
    """The value of the right-closed, equal-width bin that contains σ(η₀ + δ)."""

    values: Floats
    kind: ClassVar[str] = "histogram"

    def probability(self, logit: Floats, offset: Floats | float, time: Floats | None) -> Floats:
        values: Floats = self.values[bin_of(sigmoid(logit + offset), len(self.values))]
        return values

    def as_dict(self) -> dict[str, Any]:
        edges = np.linspace(0.0, 1.0, len(self.values) + 1)
        return {**super().as_dict(), "edges": edges.tolist()}


def bin_of(probability: Floats, bins: int) -> Any:
    """Return the right-closed equal-width bin of each probability; 0 belongs to the first.

    >>> bin_of(np.array([0.0, 0.2, 0.21, 1.0]), 5).tolist()
    [0, 0, 1, 4]
    """
    return time_bin(probability, np.linspace(0.0, 1.0, bins + 1))


def curve_from_dict(value: dict[str, Any]) -> Curve:
    """Parse the output of :meth:`Curve.as_dict`; raise :class:`ParameterSetError` for an unknown form."""
    try:
        match value["kind"]:
            case Affine.kind:
                return Affine(float(value["a"]), float(value["b0"]))
            case AffineInTime.kind:
                names = ("a", "b0", "c", "time_mean", "time_sd")
                return AffineInTime(*(float(value[name]) for name in names))
            case Isotonic.kind:
                return Isotonic(np.asarray(value["x"], float), np.asarray(value["y"], float))
            case Histogram.kind:
                return Histogram(np.asarray(value["values"], float))
    except (KeyError, TypeError, ValueError) as error:
        raise ParameterSetError(f"the link in params.json cannot be read: {error!r}") from None
    raise ParameterSetError(f"params.json has a link of unknown kind {value['kind']!r}")
