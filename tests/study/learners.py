"""Simulated learners (known abilities, items within skills, learning over time), and a control.

    p = σ(θ_u + φ_{u,s}(t) − d_s − b_i),   φ grows by a tenth with every row of the skill, up to 1

A student's general ability θ ~ N(0, 1.6²) affects all skills, so a model of the full sequence has
more information than one that counts successes within a skill.
"""

import numpy as np
import pyarrow as pa

SKILLS, ITEMS_PER_SKILL, BLOCK = 20, 4, 4


def learners(students: int = 200, rows: int = 100, seed: int = 0) -> pa.Table:
    """A log without logits, with the true probability as ``truth``."""
    rng = np.random.default_rng(seed)
    ability, special = rng.normal(0, 1.6, students), rng.normal(0, 0.3, (students, SKILLS))
    skill_level = rng.normal(0, 0.5, SKILLS)
    difficulty = rng.normal(0, 0.9, (SKILLS, ITEMS_PER_SKILL))
    user = np.repeat(np.arange(students), rows)
    time = np.tile(np.arange(rows), students)
    skill = np.repeat(rng.integers(0, SKILLS, (students, -(-rows // BLOCK))), BLOCK, axis=1)[:, :rows].ravel()
    within = rng.integers(0, ITEMS_PER_SKILL, len(user))
    practised = np.zeros(len(user))
    for each in range(SKILLS):
        here = (skill == each).reshape(students, rows)
        practised += ((np.cumsum(here, axis=1) - here) * here).ravel()
    logit = (
        ability[user] + special[user, skill] + np.minimum(0.1 * practised, 1.0)
        - skill_level[skill] - difficulty[skill, within] - 0.5
    )  # fmt: skip
    truth = 1 / (1 + np.exp(-logit))
    return pa.table(
        {
            "user_id": user,
            "item_id": skill * ITEMS_PER_SKILL + within,
            "group_id": skill,
            "event_time": time,
            "label": (rng.random(len(user)) < truth).astype(np.int8),
            "truth": truth,
        }
    )


def dealt(table: pa.Table, seed: int = 1) -> pa.Table:
    """The same rows assigned to students at random, so that earlier rows carry no information."""
    order = np.random.default_rng(seed).permutation(table.num_rows)
    mixed = table.select(["item_id", "group_id", "label", "truth"]).take(pa.array(order))
    return mixed.append_column("user_id", table["user_id"]).append_column("event_time", table["event_time"])
