"""The same by GPBoost, beside the line that lme4 found: python modes_gpboost.py DIRECTORY modes-gpboost.json

GPBoost needs its own environment (pip install gpboost pandas). A slope per item is a random coefficient.
"""

import json
import sys
from pathlib import Path

import gpboost
import numpy as np
import pandas as pd
from log import VARIANCES


def modes(directory: Path, name: str, line: list[float]) -> dict[str, list[float]]:
    """The modes of all blocks at the log's variances, with the line fixed."""
    rows, v = pd.read_csv(directory / f"{name}.csv"), VARIANCES[name]
    z = ((rows.logit - rows.logit.mean()) / rows.logit.std(ddof=0)).to_numpy()
    blocks = [each for each in v if each != "slope"]
    groups = rows[blocks].to_numpy()
    slopes = {}
    if "slope" in v:
        slopes = {
            "group_rand_coef_data": z[:, None],
            "ind_effect_group_rand_coef": [1 + blocks.index("item")],
        }
    model = gpboost.GPModel(
        group_data=groups, likelihood="bernoulli_logit", matrix_inversion_method="cholesky", **slopes
    )
    variances = np.array([*(v[each] for each in blocks), *([v["slope"]] if slopes else [])])
    fixed = line[0] * z + line[1] + rows.offset.to_numpy()
    label = rows.label.to_numpy().astype(float)
    model.set_optim_params({"init_cov_pars": variances, "maxit": 0, "delta_conv_mode_finding": 1e-15})
    model.fit(y=label, offset=fixed)
    found = model.predict_training_data_random_effects()
    found.columns = [*blocks, *(["slope"] if slopes else [])]
    key = {**{each: each for each in blocks}, "slope": "item"}
    answer = {}
    for block in found.columns:
        values = found[block].to_numpy()
        first = rows.drop_duplicates(key[block]).sort_values(key[block]).index.to_numpy()
        answer[block] = [round(float(each), 10) for each in values[first]]
    return answer


if __name__ == "__main__":
    lines = json.loads((Path(__file__).parent / "modes-lme4.json").read_text())
    found = {name: modes(Path(sys.argv[1]), name, lines[name]["line"]) for name in VARIANCES}
    Path(sys.argv[2]).write_text(json.dumps(found, indent=1) + "\n")
    print("gpboost", gpboost.__version__, file=sys.stderr)
