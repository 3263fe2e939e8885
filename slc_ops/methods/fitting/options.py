"""The options of a fit."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from slc_ops.base.errors import SettingsError
from slc_ops.base.ids import IdIndex
from slc_ops.numerics.kernels import Floats
from slc_ops.numerics.time_bins import window_of
from slc_ops.rows.passes import workers

EFFECTS = ("item", "slope", "group", "user")


def check_effects(effects: tuple[str, ...]) -> None:
    """Raise :class:`SettingsError` for unknown blocks, and if ``item`` is missing.

    >>> check_effects(("group", "skill"))
    Traceback (most recent call last):
    slc_ops.base.errors.SettingsError: effects has 'skill'; expected some of item, slope, group, user
    """
    if unknown := [name for name in effects if name not in EFFECTS]:
        raise SettingsError(f"effects has {unknown[0]!r}; expected some of {', '.join(EFFECTS)}")
    if "item" not in effects:
        raise SettingsError(f"effects is {', '.join(effects) or 'empty'}; item must be among them")


@dataclass(frozen=True, eq=False)
class EarlierOffsets:
    """The item offsets of ``slc_eb`` under another backbone.

    >>> known = EarlierOffsets("gru-7", pa.array(["b", "a"]), np.array([0.5, -1.0]))
    >>> known.of(pa.array(["a", "new", "b"])).tolist()
    [-1.0, 0.0, 0.5]
    """

    backbone_version: str
    items: pa.Array
    offset: Floats

    def of(self, items: pa.Array) -> Floats:
        """Return the offsets of these items; 0 for unknown items, and if the ids have another type."""
        if pa.types.is_integer(self.items.type) != pa.types.is_integer(items.type):
            return np.zeros(len(items))
        found: Floats = np.append(self.offset, 0.0)[IdIndex(self.items).positions(items)]
        return found


@dataclass(frozen=True)
class Forgetting:
    """Weights that fall with the age of a row's window: w·2^(−age/half_life); the newest window has age 0.

    >>> Forgetting((0.0, 10.0, 20.0), 1.0).of(np.array([3.0, 12.0, 25.0, 99.0])).tolist()
    [0.25, 0.5, 1.0, 1.0]
    >>> Forgetting((0.0, 10.0, 20.0), 1.0).of(np.array([3.0, -1.0])).tolist()
    [0.25, 0.25]
    """

    starts: tuple[float, ...]
    """The start of each window, oldest first, gaps included; earlier rows have the age of the first."""
    half_life: float

    def of(self, time: Floats) -> Floats:
        """Return the weights of rows with these times."""
        age = np.arange(len(self.starts))[::-1]
        of_window = 2.0 ** (-age / self.half_life)
        return np.asarray(of_window[window_of(np.asarray(self.starts), time)])


@dataclass(frozen=True)
class FitOptions:
    """Options of every fit; an invalid value raises :class:`SettingsError`.

    >>> FitOptions(prior_var=-1)
    Traceback (most recent call last):
    slc_ops.base.errors.SettingsError: prior_var is -1; expected a finite number greater than 0
    """

    prior_var: float = 1.0
    time_bins: int = 10
    threads: int | None = None
    earlier: EarlierOffsets | None = None
    """Item offsets of an earlier backbone; ``slc_eb`` may start from them."""
    effects: tuple[str, ...] = EFFECTS[:3]
    """The blocks that ``slc_mix`` may have; users are personal data and must be named."""

    def __post_init__(self) -> None:
        if not 0 < self.prior_var < float("inf"):
            raise SettingsError(f"prior_var is {self.prior_var}; expected a finite number greater than 0")
        if self.time_bins < 2:
            raise SettingsError(f"time_bins is {self.time_bins}; expected 2 or more")
        check_effects(self.effects)
        if self.threads is not None and self.threads < 1:
            raise SettingsError(f"threads is {self.threads}; expected 1 or more, or None for all cores")

    @property
    def workers(self) -> int:
        """Number of threads: the option, or one per core of this process."""
        return workers(self.threads)
