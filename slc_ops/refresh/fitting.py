"""The parameters that a refresh publishes: fitted up to the newest window, compared with past renewals."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slc_ops.base.errors import FitError, InputError
from slc_ops.base.methods import FALLBACK, PLATT, method_named
from slc_ops.refresh.plan import Plan
from slc_ops.refresh.window_rules import Reach, is_held_before, next_fold, plan_folds

if TYPE_CHECKING:
    from slc_ops.evidence.folds import FoldPlan, FoldRows
    from slc_ops.evidence.renewal import Renewal
    from slc_ops.methods.fitting.calibration import Calibration
    from slc_ops.methods.fitting.options import EarlierOffsets, FitOptions
    from slc_ops.parameters.parameter_set import ParameterSet
    from slc_ops.rows.engine import Engine


def folds_of(plan: Plan) -> "FoldPlan":
    """Return the plan's windows as rolling-origin folds."""
    return plan_folds(
        [(each.window, each.log) for each in plan.windows], Reach.of(plan.settings), summed=True
    )


def engine_of_plan(plan: Plan) -> "Engine":
    """Return the engine of the plan."""
    from slc_ops.rows.engine import engine_of

    return engine_of(plan.settings["engine"])


def fit_options(plan: Plan) -> "FitOptions":
    """Return the deployment's fit options."""
    from slc_ops.methods import FitOptions

    return FitOptions(
        prior_var=plan.settings["prior_var"],
        time_bins=plan.settings["time_bins"],
        earlier=earlier_offsets(plan),
        effects=tuple(plan.settings["effects"]),
    )


def earlier_offsets(plan: Plan) -> "EarlierOffsets | None":
    """Return the item offsets of the previous backbone; None without its rows or a fit.

    They are ``slc_eb``'s offsets of the plan's ``earlier`` windows: a function of the plan's rows,
    independent of the champion at that time.
    """
    from slc_ops.base.buffers import as_numpy
    from slc_ops.methods import FitOptions, fit
    from slc_ops.methods.fitting.options import EarlierOffsets
    from slc_ops.methods.fitting.window_sums import open_windows
    from slc_ops.parameters.parameter_set import ParameterSet

    target = plan.files.earlier
    if not plan.earlier:
        return None
    if not target.exists():
        log = open_windows(engine_of_plan(plan), [each.log for each in plan.earlier])
        try:
            found = fit("slc_eb", log, options=FitOptions())
        except (FitError, InputError):
            return None
        versions = log.backbone_versions
        found.with_provenance(backbone_version=versions[0] if len(versions) == 1 else None).write(target)
    known = ParameterSet.read(target)
    version = known.provenance.backbone_version
    if version is None or known.items is None:
        return None
    items = known.items.column("id").combine_chunks()
    return EarlierOffsets(version, items, as_numpy(known.items.column("offset")))


def published_rows(plan: Plan, method: str, options: dict[str, Any]) -> "FoldRows":
    """Return the rows of a method's published fit: those of the fold after the newest window."""
    from slc_ops.evidence.folds import FoldRows

    windows = [(each.window, each.log) for each in plan.windows]
    fold, chosen = next_fold(windows, Reach.of(plan.settings)), replace(fit_options(plan), **options)
    return FoldRows(fold, engine_of_plan(plan), chosen, [method])


def fitted(plan: Plan, method: str, rows: "FoldRows", target: Path) -> "ParameterSet":
    """Return the method fitted on the windows up to the refreshed one, read from ``target`` or fitted.

    Raises :class:`~slc_ops.base.errors.FitError` if it cannot be fitted.
    """
    from slc_ops.evidence.scoring import fit_on
    from slc_ops.parameters.parameter_set import ParameterSet
    from slc_ops.refresh.reuse import fit_key, forget_key, keep_key

    if target.exists() and (known := ParameterSet.read(target)).method == method:
        return known
    forget_key(target)
    found = fit_on(rows, method, rows.options)
    versions, rule = rows.calibration.log.backbone_versions, plan.settings["on_backbone_mismatch"]
    found.parameters.with_provenance(
        deployment=plan.deployment,
        window=plan.window,
        backbone_version=versions[0] if len(versions) == 1 else None,
        input_digest=plan.input_digest,
        config_digest=plan.config_digest,
        code_version=plan.code_version,
        on_backbone_mismatch=None if rule == "frozen" else rule,
    ).write(target)
    keep_key(target, fit_key(plan, rows.fold, method, rows.options), found.seconds)
    return ParameterSet.read(target)


def keep_lines(plan: Plan, method: str, rows: "FoldRows") -> None:
    """Store the lines that the next refresh compares, too: a fit with long memory has computed both."""
    if method_named(method).long_memory:
        for line in (PLATT, FALLBACK):
            if line != method:
                fitted(plan, line, rows, plan.files.line_parameters(line))


def renewal_of(plan: Plan, method: str, options: dict[str, Any], target: Path) -> "Renewal":
    """Fit the method up to the newest window, and check its parameters against past renewals."""
    from slc_ops.evidence.renewal import Renewal, check_renewal
    from slc_ops.evidence.scoring import read_parameters

    try:
        rows = published_rows(plan, method, options)
        after = fitted(plan, method, rows, target)
        keep_lines(plan, method, rows)
    except (FitError, InputError) as error:
        text = f"{method} could not be fitted with {plan.window}: {error}; the parameters that serve stay"
        return Renewal(False, False, None, None, text)
    found = [read_parameters(fold, method, plan.files.scores) for fold in folds_of(plan).folds]
    past = [each for each in found if each is not None]
    return check_renewal(
        after,
        past,
        rows.calibration.logit_moments,
        slope_error=slope_error(rows.calibration),
        held_before=is_held_before(plan.window, plan.excluded),
    )


def slope_error(calibration: "Calibration") -> float:
    """Return the standard error of a link's slope near 0, if every row has the mean label as probability."""
    rate = float(calibration.item_sums.y.sum()) / calibration.total_weight
    information = calibration.total_weight * rate * (1 - rate) * calibration.logit_moments[1] ** 2
    return float(information**-0.5) if information > 0 else 0.0
