"""Fit one method on one log, with the digests of its input.

The command line and the estimator both fit here, so the same rows give the same parameter set.
"""

from concurrent.futures import ThreadPoolExecutor

from slc_ops.base.code_version import code_version
from slc_ops.base.digests import digest_json
from slc_ops.base.errors import InputError
from slc_ops.methods import fit_prepared
from slc_ops.methods.fitting.calibration import Calibration
from slc_ops.parameters.parameter_set import ParameterSet
from slc_ops.rows.interactions import InteractionLog


def fit_with_origin(method: str, calibration: Calibration) -> ParameterSet:
    """Fit one method on a log of this process and record its provenance.

    Raises :class:`InputError` if the rows come from several backbone versions.
    """
    log, options = calibration.log, calibration.options
    if not isinstance(log, InteractionLog):
        raise InputError(f"{log.describe()} is not in this process; fit it with slc_ops.methods.fit")
    versions = log.backbone_versions
    if len(versions) > 1:
        raise InputError(
            f"{log.describe()} mixes the backbone versions {', '.join(versions)}; fit each on its own"
        )
    with ThreadPoolExecutor(1) as beside:  # a fit does not use all cores all the time
        digest = beside.submit(log.digest)
        fitted = fit_prepared(method, calibration)
        return fitted.with_provenance(
            backbone_version=versions[0] if versions else None,
            input_digest=digest.result(),
            config_digest=digest_json({"prior_var": options.prior_var, "time_bins": options.time_bins}),
            code_version=code_version(),
        )
