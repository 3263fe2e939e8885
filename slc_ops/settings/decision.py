"""The ``decision`` block: what it takes to change the method that serves."""

from typing import Annotated

from pydantic import Field

from slc_ops.settings.part import Part


class Decision(Part):
    """What it takes to change the method that serves, over the last ``evidence_windows`` windows.

    A method takes over from another when its mean NLL over the windows is lower by ``min_gain`` and by one
    standard error, or when the interval of the mean at ``confidence`` lies below 0. Parameters are renewed
    every window and need no such proof.
    """

    min_gain: float = Field(
        default=0.0005,
        gt=0,
        description="smaller mean differences in NLL over the windows decide nothing unless they are clear; "
        "methods this close to the best are ties, and go to the simpler",
    )
    confidence: float = Field(default=0.95, gt=0.5, lt=1, description="level of the intervals")
    replicates: int = Field(
        default=1000, ge=100, le=1_000_000, description="replicates of the report's bootstrap"
    )
    max_slice_nll_loss: float | None = Field(
        default=None,
        ge=0,
        description="NLL loss against Platt allowed in any one slice of the newest window; unset, a worse "
        "slice is only noted",
    )
    prior_vars: tuple[Annotated[float, Field(gt=0)], ...] = Field(
        default=(0.1, 1.0, 10.0), description="prior variances tried beside `prior_var`"
    )
    time_bins: tuple[Annotated[int, Field(ge=2, le=10_000)], ...] = Field(
        default=(5, 10), description="numbers of time bins tried beside `time_bins`"
    )
