"""Reuse fits of earlier refreshes.

A refresh publishes its method fitted on the windows up to the newest one. A week later the newest fold has
the same windows, and the same method fitted on them gives the same parameter set to the last bit; so the set
is read, and the rows are not. A fit is a function of its rows, the method, its options and the code; its key,
a digest of all of them, is stored beside the parameters. An unreadable fit counts as absent.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slc_ops.base.digests import digest_json
from slc_ops.base.errors import SlcError
from slc_ops.base.files import read_json, write_json
from slc_ops.base.methods import method_named
from slc_ops.refresh.plan import Plan

if TYPE_CHECKING:
    from slc_ops.evidence.scoring import Fitted
    from slc_ops.methods.fitting.options import FitOptions

SUFFIX = "-key.json"


def fit_key(
    plan: Plan, method: str, options: "FitOptions", windows: Sequence[Path], links: int, chosen_on: int = 0
) -> str:
    """Return the cache key of a fit; empty if its rows have no key.

    ``windows`` are all windows of the method's fit, the last ``links`` of them those of its link; a method
    that forgets chooses its blocks on the last ``chosen_on``.
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
    if method_named(method).long_memory:  # the time between windows counts
        ages = {window.log: window.window.key for window in plan.windows}
        chosen["windows"] = [ages[path] for path in windows]
    if method_named(method).forgets:
        chosen |= {"effects": options.effects, "forget": [chosen_on, plan.settings["forget"]]}
    return digest_json([rows, links, method, chosen]) if all(rows) else ""


def keep_key(parameters: Path, key: str, seconds: float) -> None:
    """Store the key of the fit in ``parameters``."""
    if key:
        write_json(_beside(parameters), {"key": key, "seconds": seconds})


def forget_key(parameters: Path) -> None:
    """Delete the key before other parameters replace the fit."""
    _beside(parameters).unlink(missing_ok=True)


def kept_fit(plan: Plan, method: str, key: str) -> "Fitted | None":
    """Return an earlier refresh's fit under this key, without its provenance, or None."""
    from slc_ops.evidence.scoring import Fitted
    from slc_ops.parameters.parameter_set import ParameterSet, Provenance

    for path in sorted(plan.files.refreshes.glob(f"*/*/*parameters{SUFFIX}"), reverse=True):
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
