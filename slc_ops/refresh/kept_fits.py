"""Fits that an earlier refresh has made already.

A refresh publishes its method fitted on the windows up to the newest one. A week later the newest fold learns
from the same windows, and the same method fitted on them is the same parameter set to the last bit; so it is
read, and its rows are not. A fit is a function of its rows, the method, its options and the code; its key
names all of them and lies beside the parameters. Whatever cannot be read counts as absent.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slc_ops.base.errors import SlcError
from slc_ops.base.files import digest_json, read_json, write_json
from slc_ops.base.methods import method_named
from slc_ops.refresh.plan import Plan

if TYPE_CHECKING:
    from slc_ops.evidence.scoring import Fitted
    from slc_ops.methods.fitting.options import FitOptions

SUFFIX = "-key.json"


def fit_key(
    plan: Plan, method: str, options: "FitOptions", windows: Sequence[Path], links: int, chosen_on: int = 0
) -> str:
    """The name of everything that a fit depends on; empty where its rows have no lasting name.

    ``windows`` are all that the method learns from, its link from the last ``links`` of them; a method that
    forgets chooses its blocks on the last ``chosen_on``.
    """
    keys = {window.log: window.rows_key for window in plan.windows}
    rows: list[Any] = [keys[path] for path in windows]
    if plan.earlier and method_named(method).long_memory:
        rows.append([each.rows_key for each in plan.earlier])
    chosen: dict[str, Any] = {
        "prior_var": options.prior_var,
        "time_bins": options.time_bins,
        "engine": plan.settings.get("engine"),
    }
    if method_named(method).forgets:
        ages = {window.log: window.window.key for window in plan.windows}
        forget = [chosen_on, [ages[path] for path in windows], plan.settings["forget"]]
        chosen |= {"effects": options.effects, "forget": forget}
    return digest_json([rows, links, method, chosen]) if all(rows) else ""


def keep_key(parameters: Path, key: str, seconds: float) -> None:
    """Name the fit that was written to ``parameters``."""
    if key:
        write_json(_beside(parameters), {"key": key, "seconds": seconds})


def forget_key(parameters: Path) -> None:
    """Before other parameters take their place."""
    _beside(parameters).unlink(missing_ok=True)


def kept_fit(plan: Plan, method: str, key: str) -> "Fitted | None":
    """An earlier refresh's fit under this key, without that refresh's own origin, as a fold has it."""
    from slc_ops.evidence.scoring import Fitted
    from slc_ops.parameters.parameter_set import ParameterSet, Provenance

    for path in sorted(plan.directory.parent.parent.glob(f"*/*/*parameters{SUFFIX}"), reverse=True):
        with suppress(SlcError, OSError, ValueError, KeyError, TypeError):
            found = read_json(path)
            if key and found["key"] == key:
                known = ParameterSet.read(path.with_name(path.name.removesuffix(SUFFIX)))
                if known.method == method:
                    origin = Provenance(prior_mean=known.provenance.prior_mean)
                    return Fitted(replace(known, provenance=origin), float(found["seconds"]))
    return None


def _beside(parameters: Path) -> Path:
    return parameters.with_name(parameters.name + SUFFIX)
