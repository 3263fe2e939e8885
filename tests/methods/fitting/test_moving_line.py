"""The moving line of windows follows lasting levels and not jumps."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from slc_ops.methods import fit, fit_prepared
from slc_ops.methods.fitting.calibration import Calibration, ItemOffsets
from slc_ops.methods.fitting.link import fit_link, link_terms
from slc_ops.methods.fitting.moving_line import RARE, filtered, followed, grid, moving_line
from slc_ops.numerics.kernels import SLICE_ROWS
from slc_ops.rows.interactions import InteractionLog

SPAN = 1000.0


def windows(levels: list[float | None], rows: int = 2000, seed: int = 0) -> Calibration:
    """One window per level of the truth over the frozen model; None for a window without rows."""
    rng = np.random.default_rng(seed)
    tables = []
    for number, level in enumerate(levels):
        if level is None:
            continue
        logit = rng.normal(-0.5, 1, rows)
        label = (rng.random(rows) < 1 / (1 + np.exp(-logit - level))).astype(np.int8)
        time = number * SPAN + np.arange(rows) * SPAN / rows
        item = rng.integers(0, 20, rows)
        tables.append(pa.table({"item_id": item, "event_time": time, "label": label, "logit": logit}))
    log = InteractionLog.from_table(pa.concat_tables(tables))
    return Calibration(log, None, None, None, tuple(SPAN * number for number in range(len(levels))))


def level_of(calibration: Calibration) -> float:
    """The intercept of ``platt_eb``."""
    found = fit_prepared("platt_eb", calibration).affine()
    assert found is not None
    return found["b0"]


def test_a_level_that_only_jumps_is_mostly_ignored() -> None:
    """Platt's line uses the mean of the last four windows as the level of the next one."""
    jumps = [0.6, -0.5, 0.5, -0.6, 0.8, -0.2, 0.8, -0.2]
    long, short = windows(jumps), windows([None] * 4 + jumps[4:])
    platt = fit_link(short).b0
    found = fit_prepared("platt_eb", short, long).affine()
    assert platt > 0.2
    assert found is not None
    assert 0 < found["b0"] < 0.7 * platt
    assert found["b0"] > 0.5 * platt - 0.05  # half of the result is the line of the newest windows


def test_a_model_that_is_wrong_in_every_window_is_corrected_at_once() -> None:
    """One window is followed for the most part, four of them completely."""
    assert level_of(windows([0.8])) > 0.6
    assert level_of(windows([0.8] * 4)) == pytest.approx(0.8, abs=0.06)


def test_a_lasting_shift_of_the_level_is_followed_faster_than_by_platt() -> None:
    """Platt's line averages the windows before and after the step."""
    found = windows([0.0, 0.0, 0.0, 0.0, 0.6, 0.6])
    assert level_of(found) > fit_link(found).b0 + 0.1


def test_windows_without_rows_only_add_time() -> None:
    """Empty windows before the first rows change nothing; in between, they allow for more steps."""
    near, line = np.zeros(1), np.array([[0.0], [0.1], [0.0], [0.1], [0.5]])
    known = np.full((5, 1, 1), 100.0)
    plain = filtered(near, 100.0 * line, known)

    def with_empty(place: int) -> np.ndarray:
        pull, information = (np.insert(each, [place] * 6, 0.0, axis=0) for each in (100.0 * line, known))
        return filtered(near, pull, information)

    assert with_empty(0) == pytest.approx(plain, abs=0)
    assert with_empty(4) > plain


@pytest.mark.parametrize("rows", [500, SLICE_ROWS], ids=["slices of several windows", "slices of one"])
def test_the_sums_of_a_pass_equal_those_of_each_window(rows: int) -> None:
    """An independent computation: gradient and information of every window from its rows."""
    found = windows([0.2, None, -0.3, 0.4], rows=rows)
    offsets = ItemOffsets(np.linspace(-1, 1, found.n_items))
    near = np.array([0.9, -0.4])
    mean, spread = found.logit_moments
    table = found.log.rows(0, found.log.n_rows, frozenset({"time"}))
    x = (table.logit - mean) / spread
    eta = near[0] * x + near[1] + offsets.values[table.codes]
    p = 1 / (1 + np.exp(-eta))
    design = np.stack([x, np.ones_like(x)], axis=1)
    pull, information = np.zeros((4, 2)), np.zeros((4, 2, 2))
    for window in range(4):
        mine = (table.time // SPAN).astype(int) == window
        pull[window] = design[mine].T @ (table.label - p)[mine]
        information[window] = (design[mine] * (p * (1 - p))[mine, None]).T @ design[mine]
    frozen = np.array([spread, mean])
    terms = replace(link_terms(found), known=offsets)
    expected = frozen + filtered(near - frozen, pull, information)
    assert moving_line(found, terms, near) == pytest.approx(expected, rel=1e-9)
    fewer = frozen + filtered(near - frozen, pull / 20, information / 20)
    assert moving_line(found, terms, near, rows_of_one=20.0) == pytest.approx(fewer, rel=1e-9)


@pytest.mark.parametrize("jump", [0.3, 60.0], ids=["usual levels", "levels far from all priors"])
def test_the_filter_equals_the_joint_normal_distribution_of_all_windows(jump: float) -> None:
    """An independent computation: all windows at once, instead of one after the other."""
    rng = np.random.default_rng(4)
    known = [w for w in range(7) if w not in (0, 3)]  # the others have no rows
    near = np.array([0.2, -0.1])
    pull, information = np.zeros((7, 2)), np.zeros((7, 2, 2))
    for w in known:
        root = rng.normal(0, 1, (2, 2))
        information[w] = root @ root.T * (0.004 if w == 4 else 50.0) + 0.001 * np.eye(2)
        pull[w] = information[w] @ rng.normal(0, jump, 2)
    observed = np.concatenate([near + np.linalg.solve(information[w] + 1e-3 * np.eye(2), pull[w])
                               for w in known])  # fmt: skip
    noise = [np.linalg.inv(information[w] + 1e-3 * np.eye(2)) for w in known]
    means, evidence = [], []
    for first, deviation, step, weight in zip(*grid(), strict=True):
        # The level of window w and that of v share the first one, and the steps up to the earlier of both.
        shared = np.block([[np.diag(first + (min(w, v) - known[0]) * step) for v in known] for w in known])
        whole = shared + np.kron(np.eye(len(known)), np.diag(deviation))
        for place, each in enumerate(noise):
            whole[2 * place : 2 * place + 2, 2 * place : 2 * place + 2] += each
        solved = np.linalg.solve(whole, observed)
        means.append(shared[-2:] @ solved)
        evidence.append(weight - 0.5 * (np.linalg.slogdet(whole)[1] + observed @ solved))
    share = np.exp(np.array(evidence) - max(evidence))
    assert filtered(near, pull, information) == pytest.approx(share @ np.array(means) / share.sum())


def test_constant_logits_fit_only_a_level() -> None:
    """The slope stays 1."""
    label = np.tile([0, 1, 1, 1], 500).astype(np.int8)
    table = pa.table(
        {
            "item_id": np.zeros(2000, int),
            "event_time": np.arange(2000.0),
            "label": label,
            "logit": np.full(2000, -1.0),
        }
    )
    log = InteractionLog.from_table(table)
    found = fit_prepared("platt_eb", Calibration(log, None, None, None, (0.0, 1000.0))).affine()
    assert found is not None
    assert found["a"] == 1.0
    assert found["b0"] == pytest.approx(np.log(3) + 1, abs=0.3)


def test_a_log_that_is_not_in_windows_keeps_its_line() -> None:
    """``fit`` on rows alone has no windows."""
    found = windows([0.5, -0.5])
    alone = Calibration(found.log)
    line = fit_link(alone)
    assert followed(line, alone, alone) is line
    assert fit("platt_eb", found.log).affine() == fit_prepared("platt_eb", alone).affine()


@pytest.mark.parametrize("method", ["slc_eb", "slc_mix"])
def test_item_methods_follow_the_level_in_the_same_way(method: str) -> None:
    """Without offsets they have the line of ``platt_eb``."""
    found = windows([0.5, -0.6, 0.1, 0.7, -0.4, -0.5, 0.6, 0.9])
    assert fit_prepared(method, found).affine() == fit_prepared("platt_eb", found).affine()


def test_the_grid_has_variances_and_makes_each_moving_part_less_probable() -> None:
    first, deviation, step, weight = grid()
    assert set(first.ravel().tolist()) == {width**2 for width in (1.5, 0.4, 0.1, 0.02)}
    moved = {0.0, 0.1, 0.3, 0.9}
    for variance in (deviation, step):
        assert set(np.sqrt(variance[:, 1]).round(9)) == moved
        assert set(np.sqrt(variance[:, 0]).round(9)) == {round(r * m, 9) for r in (0, 0.3, 1) for m in moved}
    moving = (deviation[:, 1] > 0).astype(int) + (step[:, 1] > 0)
    np.testing.assert_allclose(weight, RARE * moving)
