"""What a fit may be told."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from slc_ops.base.errors import SettingsError
from slc_ops.rows.passes import workers

if TYPE_CHECKING:
    from slc_ops.methods.fitting.earlier import EarlierOffsets


@dataclass(frozen=True)
class FitOptions:
    """Options of every fit; a value that cannot be used is refused, never replaced.

    >>> FitOptions(prior_var=-1)
    Traceback (most recent call last):
    slc_ops.base.errors.SettingsError: prior_var is -1; expected a finite number greater than 0
    """

    prior_var: float = 1.0
    time_bins: int = 10
    threads: int | None = None
    earlier: "EarlierOffsets | None" = None
    """What an earlier backbone's rows said of the items; ``slc_eb`` may begin from it."""

    def __post_init__(self) -> None:
        if not 0 < self.prior_var < float("inf"):
            raise SettingsError(f"prior_var is {self.prior_var}; expected a finite number greater than 0")
        if self.time_bins < 2:
            raise SettingsError(f"time_bins is {self.time_bins}; expected 2 or more")
        if self.threads is not None and self.threads < 1:
            raise SettingsError(f"threads is {self.threads}; expected 1 or more, or None for all cores")

    @property
    def workers(self) -> int:
        """Threads to use: as told, otherwise one per core this process may run on."""
        return workers(self.threads)
