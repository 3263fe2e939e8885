"""``slc_mix``: effects of items, groups and users in one crossed model.

    p = σ(a·η₀ + b₀ + cᵢ + dᵢ·(η₀ − η̄) + g + u)

The blocks cᵢ (an offset per item), dᵢ (a slope per item), g (an effect per group) and u (one per user) are
normal around 0, each with its own variance v and lasting share s. The items' variance and share are those of
``slc_eb``; each further block enters only if held-out rows gain by it
(:mod:`slc_ops.methods.fitting.blocks`), and is absent otherwise. With items alone it *is* ``slc_eb``.

All blocks and the line minimise the penalised likelihood together (:mod:`slc_ops.numerics.crossed`), which is
convex. The result is the lasting part, s times each block, with its own line, fitted to the newest rows with
the blocks fixed. In a refresh the blocks are fitted on more windows than those of ``slc_eb``, and a row has
the weight 2^(−age/half-life) (``older``).

An unknown item keeps the effects of its group and its user, an unknown user the effect of its item. If
neither groups nor users entered, unknown items get Platt's line, as with ``slc_eb``. The variance of an
effect is that of its posterior with everything else fixed.

The option ``effects`` lists the blocks that may enter; users are personal data, and enter only if named.
"""

from dataclasses import replace
from functools import partial

import numpy as np

from slc_ops.base.errors import FitError
from slc_ops.base.ids import IdIndex
from slc_ops.methods import slc_eb
from slc_ops.methods.fitting.blocks import Chosen, choose_blocks
from slc_ops.methods.fitting.calibration import Calibration
from slc_ops.methods.fitting.link import fit_link
from slc_ops.methods.fitting.mixed import ByUser, Mixed, Standard, cells_of
from slc_ops.methods.fitting.moving_line import followed
from slc_ops.methods.fitting.older_rows import limited
from slc_ops.methods.fitting.options import EFFECTS
from slc_ops.methods.fitting.prior_variance import Prior
from slc_ops.methods.fitting.results import effect_of, fitted, item_effect, lasting_part
from slc_ops.numerics.crossed import Crossed, shrunk
from slc_ops.numerics.curves import Affine
from slc_ops.numerics.kernels import Floats, Sums, key_sums, total
from slc_ops.numerics.newton import Minimum, State
from slc_ops.parameters.effects import Effect
from slc_ops.parameters.parameter_set import ParameterSet, Provenance
from slc_ops.rows.rows import Columns, Rows

GROUP: Columns = frozenset({"group"})
USER: Columns = frozenset({"user"})


def fit(
    calibration: Calibration, link: Calibration | None = None, older: Calibration | None = None
) -> ParameterSet:
    """Choose the blocks on held-out rows, fit them together, then the line of the lasting part.

    ``link`` contains the newest of the calibration's rows, if the line has its own; ``older`` the rows of all
    blocks, if they reach further back than those for choosing the blocks.
    """
    calibration.keep_rows = True  # the items' prior and the blocks are chosen on the same rows
    prior, _ = slc_eb.chosen_prior(calibration)
    blocks = chosen_blocks(calibration, prior)
    if not blocks.entered and (older is None or not blocks.variances.item):
        return replace(slc_eb.fit(calibration, link), method="slc_mix")
    newest = link or calibration
    rows = calibration if older is None else limited(older, newest, users=blocks.variances.user > 0)
    model = _model(
        rows, Standard(*calibration.logit_scale, rows.forget), blocks, slc_eb.prior_mean_of(rows, prior)
    )
    found = model.minimise(_start(calibration, rows, model, blocks), blocks.variances)
    effects = _effects(rows, model, found, blocks)
    parts = ParameterSet("slc_mix", Affine(1.0, 0.0), effects, model.standard.mean)
    line = fit_link(newest, parts.on(newest.log))
    platt_too = blocks.variances.item > 0 and not {"group", "user"} & set(blocks.entered)
    platt = slc_eb.line_of_new_items(calibration, link) if platt_too else None
    return fitted(
        rows,
        "slc_mix",
        followed(line, newest, calibration, parts.on(calibration.log)),
        effects,
        logit_mean=model.standard.mean,
        cold=None if platt is None else Affine(platt.a, platt.b0),
        provenance=Provenance(prior_mean=slc_eb.mean_in_words(rows.options.earlier, prior)),
    )


def _start(calibration: Calibration, rows: Calibration, model: Mixed, blocks: Chosen) -> State:
    """Return the final state of the choice of blocks, in the order of these rows' items and groups."""
    offset = model.shape.zeros
    if blocks.near is None:
        return State(np.zeros(2), offset)
    link, *found = blocks.near
    item, slope, group, _ = model.shape.split(offset)  # views, which are filled
    pairs = [(item, found[0], calibration.log.items, rows.log.items)]
    pairs += [(slope, found[1], calibration.log.items, rows.log.items)] if blocks.variances.slope else []
    if blocks.variances.group:
        pairs.append((group[:-1], found[2][:-1], calibration.log.groups, rows.log.groups))
    for into, values, known, wanted in pairs:
        same = calibration is rows
        into[:] = values if same else np.append(values, 0.0)[IdIndex(known).positions(wanted)]
    return State(link, offset)


def chosen_blocks(calibration: Calibration, prior: Prior) -> Chosen:
    """Return the chosen blocks with their priors; computed once for a log."""
    return calibration.once(
        ("blocks", calibration.options.effects),
        lambda: choose_blocks(calibration, prior, slc_eb.prior_mean_of(calibration, prior)),
    )


def _model(rows: Calibration, standard: Standard, blocks: Chosen, mean: Floats | None) -> Mixed:
    """Return the model of all rows; with users, they are held in this process."""
    cells = cells_of(rows.log, groups=blocks.variances.group > 0)
    n_users, by_user = 0, None
    if blocks.variances.user:
        log = rows.log.in_memory()
        if log is None or log.users is None:
            raise FitError(
                f"effects of users need all rows in the memory of one process; {rows.log.describe()} has "
                f"{rows.log.n_rows:,} rows (leave user out of effects)"
            )
        n_users = len(log.users)
        columns: Columns = USER | cells.columns | standard.columns
        by_user = ByUser.of(log.rows(0, log.n_rows, columns), cells, standard, n_users)
    shape = cells.shape(n_users, mean)
    return Mixed(rows.log, rows.total_weight, rows.options.workers, cells, shape, standard, by_user)


def _effects(rows: Calibration, model: Mixed, found: Minimum[Crossed], blocks: Chosen) -> dict[str, Effect]:
    """Return the lasting part of each block as a table."""
    shape, near, v = model.shape, found.near, blocks.variances
    shares = dict(zip(EFFECTS, blocks.in_order, strict=True))
    item, slope, group, user = shape.split(shrunk(shape, found.state, blocks.in_order).offset)
    slopes = slope / model.standard.spread if v.slope else None
    total_item = item if shape.mean is None else item + shape.mean
    posterior = lasting_part(near.eliminated[0], v.item, shares["item"])
    items = item_effect(rows, total_item, *posterior, slope=slopes)
    if v.slope:
        items = replace(items, slope_prior_var=shares["slope"] * v.slope / model.standard.spread**2)
    effects = {"item": items}
    if v.group:
        curved = total(shape.group_of, near.sums.h, shape.groups + 1) + 1.0 / v.group
        sums = rows.add_up(partial(_group_sums, shape.groups), columns=GROUP, n_keys=shape.groups)
        posterior = lasting_part(1.0 / curved[:-1], v.group, shares["group"])
        effects["group"] = effect_of(rows.log.groups, sums, {"offset": group[:-1]}, *posterior)
    log = rows.log.in_memory() if v.user else None
    if log is not None and log.user_codes is not None:
        weight = log.weight if log.weighted else None
        sums = key_sums(log.user_codes, shape.users, log.label, log.logit, weight)
        posterior = lasting_part(1.0 / (near.users.h[:-1] + 1.0 / v.user), v.user, shares["user"])
        effects["user"] = effect_of(log.users, sums, {"offset": user[:-1]}, *posterior)
    return effects


def _group_sums(size: int, rows: Rows) -> Sums:
    assert rows.group is not None  # noqa: S101 - the pass requests groups
    known = rows.chosen(rows.group >= 0)
    assert known.group is not None  # noqa: S101 - chosen from rows with groups
    return key_sums(known.group, size, known.label, known.logit, known.weight)
