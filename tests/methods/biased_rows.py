"""Rows with biased items in several shapes, and the priors that fits choose."""

import numpy as np
import pyarrow as pa

from slc_ops.evidence.metrics import metrics_of
from slc_ops.methods.fitting.calibration import Calibration
from slc_ops.methods.fitting.prior_variance import ChoiceRows, choose_prior
from slc_ops.methods.slc_eb import joint_model
from slc_ops.numerics.newton import State
from slc_ops.rows.interactions import InteractionLog


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def world(seed=0, rows=20_000, items=200, users=300, sd=0.7, passing=0.0, scale=1.0, shift=0.0):
    """A calibration and a test table: lasting offsets with standard deviation ``sd``, window-specific ones
    with ``passing``.
    """
    rng = np.random.default_rng(seed)
    lasting = rng.normal(0, sd, items)
    tables = []
    for window in range(2):
        # Popular and rare items: equal counts cannot separate a small variance from a lasting share of 1/2.
        item, user = (items * rng.random(rows) ** 3).astype(int), rng.integers(0, users, rows)
        eta = rng.normal(0, 1, rows)
        # Passing offsets change with the last fifth of the window, and again with the next window.
        era = (np.arange(rows) >= 0.8 * rows).astype(int)
        offset = lasting[item] + passing * rng.normal(0, 1, (items, 2))[item, era]
        label = (rng.random(rows) < sigmoid(eta + offset)).astype(np.int8)
        tables.append(
            pa.table({"item_id": item, "user_id": user, "event_time": np.arange(rows) + window * rows,
                      "label": label, "logit": scale * eta + shift})
        )  # fmt: skip
    return tables


def log_of(table):
    return InteractionLog.from_table(table)


def nll(parameters, table):
    return metrics_of(table["label"].to_numpy(), parameters.apply(log_of(table))).nll


def prior_of(table):
    calibration = Calibration(log_of(table))
    model, start = model_of(calibration)
    return choose_prior(ChoiceRows.of(calibration.log), model, start)[0]


def model_of(calibration):
    mean, spread = calibration.logit_moments
    return joint_model(calibration), State(np.array([spread, mean]), np.zeros(calibration.n_items))


def predictions(table, parameters):
    return parameters.apply(log_of(table))
