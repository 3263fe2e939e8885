"""The table of methods agrees with the fits, and no other list of methods exists."""

import ast
import importlib
import pkgutil
import runpy
from pathlib import Path

import numpy as np
import pytest

import slc_ops.methods
from slc_ops.base.errors import SettingsError
from slc_ops.base.methods import FALLBACK, METHODS, REFERENCES, ladder, method_named
from slc_ops.evidence.metrics import metrics_of
from slc_ops.methods import FitOptions, fit
from tests.methods.synthetic import log

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def logs():
    return log(), log(seed=8)


def test_every_method_has_a_module_and_every_module_an_entry():
    found = {module.name for module in pkgutil.iter_modules(slc_ops.methods.__path__)}
    fits = {name for name in found if hasattr(importlib.import_module(f"slc_ops.methods.{name}"), "fit")}
    assert fits == set(METHODS)
    assert all(name == method.name for name, method in METHODS.items())


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_the_columns_of_a_method_match_its_parameters(method, logs):
    found = fit(method.name, logs[0])
    assert found.method == method.name
    assert (found.items is not None) == method.per_item
    assert found.needs_time == method.needs_time
    assert (found.time_edges is not None) == method.in_cells
    assert (found.affine() is not None) == method.fits_link
    assert method.in_cells or not method.tracks_drift


@pytest.mark.parametrize("option", ["prior_var", "time_bins"])
@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_only_the_options_of_a_method_change_its_result(method, option, logs):
    calibration, later = logs
    one, other = (fit(method.name, calibration, options=FitOptions(**{option: v})) for v in (3, 7))
    changed = not np.array_equal(one.apply(later), other.apply(later))
    assert changed == (option in method.tunes)


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_monotone_methods_keep_the_auc_and_all_others_change_it(method, logs):
    calibration, later = logs
    before, after = (
        metrics_of(later.label, fit(name, calibration).apply(later)).auc for name in ("base", method.name)
    )
    assert (after == pytest.approx(before, abs=1e-9)) == method.monotone
    assert method.auc.startswith("none") == method.monotone


def test_isotonic_never_reverses_rows_and_a_histogram_may(logs):
    calibration, later = logs
    order = np.argsort(later.logit, kind="stable")
    step = {name: np.diff(fit(name, calibration).apply(later)[order]) for name in ("isotonic", "histogram")}
    assert (step["isotonic"] >= 0).all()
    assert (step["isotonic"] == 0).any()
    assert (step["histogram"] == 0).any()


def test_a_histogram_with_unordered_rates_reverses_bins():
    from tests.methods.synthetic import log_of

    falling = log_of(label=[1, 1, 0, 0] * 5, logit=[-3.0, -3.0, 3.0, 3.0] * 5)
    low, high = fit("histogram", falling).correct(["only", "only"], [-3.0, 3.0])
    assert low > high


def test_descriptions_are_one_sentence_for_the_help():
    for method in METHODS.values():
        assert method.description.endswith(".")
        assert method.description.count(". ") == 0
        assert "|" not in method.description + method.auc  # they are shown in a table


def test_a_list_of_methods_is_sorted_and_unknown_names_are_refused():
    assert ladder(["slc_eb", "temperature"]) == (*REFERENCES, FALLBACK, "temperature", "slc_eb")
    with pytest.raises(SettingsError, match=r"no method 'slc_ebb'.*did you mean 'slc_eb'"):
        ladder(["slc", "slc_ebb"])
    with pytest.raises(SettingsError, match=r"slc_mix$"):  # no similar name: no suggestion
        method_named("forest")


def methods_page():
    """docs/methods.md, and its expected content."""
    script = runpy.run_path(str(ROOT / "scripts" / "methods_table.py"))
    return script["PAGE"], script["page"]()


def test_the_documentation_matches_the_table():
    path, expected = methods_page()
    assert path.read_text() == expected, "run python scripts/methods_table.py"
    assert expected.count("| `slc_eb` |") == 1


# Packages that affect results; demos, controls and the paper's analyses may name methods.
DECIDING = [
    "settings", "parameters", "numerics", "evidence", "registry", "serving", "refresh", "reporting",
    "airflow", "cli",
]  # fmt: skip
CHOICES = {
    "default of a deployment": ("base", "platt_eb", "slc_eb", "slc_mix"),
    "columns of a study": ("base", "platt", "rescal_iso", "slc"),
}


def method_lists(path):
    """Tuples, lists and sets of several methods in a module."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            names = tuple(each.value for each in node.elts if isinstance(each, ast.Constant))
            if len([name for name in names if name in METHODS]) >= 2 and names not in CHOICES.values():
                yield f"{path.relative_to(ROOT)}:{node.lineno}: {names}"


def test_no_other_module_lists_methods():
    modules = [path for package in DECIDING for path in (ROOT / "slc_ops" / package).rglob("*.py")]
    assert [found for path in modules for found in method_lists(path)] == []
    assert len(modules) > 100


def test_a_second_list_of_methods_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr("tests.methods.test_table.ROOT", tmp_path)
    (tmp_path / "module.py").write_text('NEED_TIME = ("naive", "slc_t")\n')
    assert list(method_lists(tmp_path / "module.py"))
