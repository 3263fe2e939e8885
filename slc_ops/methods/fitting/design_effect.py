"""The design effect: how many rows count as one observation, because rows of a user resemble each other.

A game, a session or a trip can give all its rows one label. A line fitted on such rows is as uncertain as one
fitted on the games. With r = p − y the residuals at Platt's line, X the standardised logit and a one, and g_u
the sum of r·X over the rows of user u, the covariance of the line is H⁻¹SH⁻¹ instead of H⁻¹:

    H = Σ p(1−p)·XXᵀ,    S = U/(U−1) · Σ_u g_u g_uᵀ,    design effect = max(1, tr(H⁻¹S) / 2)

(the sandwich of Huber and White, by cluster, and Kish's ratio of variances, averaged over both coefficients).
The log-likelihood divided by it counts observations instead of rows. It matters only to few rows: above
``MANY_ROWS`` even games of a thousand rows determine a line, and it is 1.

>>> import pyarrow as pa
>>> from slc_ops.rows.interactions import InteractionLog
>>> rng = np.random.default_rng(1)
>>> game, x = np.repeat(np.arange(300), 20), rng.normal(0, 1, 6000)
>>> columns = {"item_id": game % 7, "user_id": game, "logit": x}
>>> for label in (rng.random(6000) < 0.5, (rng.random(300) < 0.5)[game]):
...     log = InteractionLog.from_table(pa.table({**columns, "label": label.astype(np.int8)}))
...     print(round(design_effect(Calibration(log))))
1
11
"""

import numpy as np

from slc_ops.methods.fitting.calibration import Calibration
from slc_ops.methods.fitting.link import link_terms, plain_link
from slc_ops.methods.fitting.prior_variance import MANY_ROWS, rows_of_choice
from slc_ops.numerics.kernels import Floats, dot, total


def design_effect(calibration: Calibration) -> float:
    """Return the design effect of a log's users; 1 without users. Computed once for all methods of a log."""
    return calibration.once("design_effect", lambda: _design_effect(calibration))


def _design_effect(calibration: Calibration) -> float:
    log = calibration.log
    if not log.has("user_id") or log.n_rows > MANY_ROWS or (line := plain_link(calibration)).separated:
        return 1.0
    known = rows_of_choice(calibration)
    if known is None or known.rows.user is None:
        return 1.0
    rows, user = known.rows, known.rows.user.astype(np.intp)
    here = link_terms(calibration).at(line.state, rows, slice(None))
    columns = [*here.columns, np.ones(len(rows))]
    residual, fisher = np.empty((2, len(rows)))
    here.residual_and_fisher(residual, fisher)
    weights = np.bincount(user, rows.weight)
    users = int(np.count_nonzero(weights))
    by_user = [total(user, residual * x, len(weights)) for x in columns]
    information = np.array([[dot(fisher, x * other) for other in columns] for x in columns])
    between = np.array([[dot(one, other) for other in by_user] for one in by_user])
    return ratio(information, between * (users / max(users - 1, 1)))


def ratio(information: Floats, between: Floats) -> float:
    """Return max(1, tr(H⁻¹S)/k); 1 if H has no inverse."""
    try:
        found = float(np.trace(np.linalg.solve(information, between))) / len(information)
    except np.linalg.LinAlgError:
        return 1.0
    return max(1.0, found) if np.isfinite(found) else 1.0
