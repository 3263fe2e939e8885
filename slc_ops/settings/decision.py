"""The ``decision`` block: thresholds of the gate."""

from typing import Annotated

from pydantic import Field

from slc_ops.settings.part import Part


class Decision(Part):
    """Thresholds of the gate.

    Against ``platt`` a candidate must be better (AUC gain above ``min_auc_gain``, NLL loss below
    ``max_nll_loss``); against the champion it must not be worse by more than the margins. Both are
    decided by the ends of the intervals, never by the estimates.
    """

    min_test_rows: int = Field(
        default=1000,
        ge=1,
        description="fewer rows in the newest window: the refresh stops and the champion stays; "
        "an older fold with fewer is left out",
    )
    min_users: int = Field(default=30, ge=10, description="fewer users cannot carry an interval: hold")
    confidence: float = Field(default=0.95, gt=0.5, lt=1, description="level of the intervals")
    replicates: int = Field(default=1000, ge=100, le=1_000_000, description="replicates of the bootstrap")
    min_auc_gain: float = Field(
        default=0.0, ge=0, description="the lower end of the AUC gain over Platt must exceed it"
    )
    max_nll_loss: float = Field(
        default=0.0, ge=0, description="the upper end of the NLL loss against Platt must stay below it"
    )
    champion_auc_margin: float = Field(
        default=0.001, ge=0, description="how much lower than the champion's an AUC may be and is no worse"
    )
    champion_nll_margin: float = Field(
        default=0.001, ge=0, description="how much higher than the champion's an NLL may be and is no worse"
    )
    max_slice_nll_loss: float | None = Field(
        default=None,
        ge=0,
        description="NLL loss allowed in any one slice; unset, a worse slice is only noted",
    )
    min_gain: float = Field(
        default=0.0005,
        gt=0,
        description="smaller mean differences in NLL over the windows decide nothing unless they are clear; "
        "methods this close to the best are ties, and go to the simpler",
    )
    nll_tie: float = Field(default=0.0002, ge=0, description="mean NLLs this close are told apart by AUC")
    prior_vars: tuple[Annotated[float, Field(gt=0)], ...] = Field(
        default=(0.1, 1.0, 10.0), description="prior variances tried beside `prior_var`"
    )
    time_bins: tuple[Annotated[int, Field(ge=2, le=10_000)], ...] = Field(
        default=(5, 10), description="numbers of time bins tried beside `time_bins`"
    )
