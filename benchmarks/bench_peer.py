"""Another library on two logs: the duration of its fit and its metrics. Run by ``bench.py``.

    python benchmarks/bench_peer.py scikit-learn|statsmodels|mcgrad|netcal CALIBRATION TEST

Does not import slc_ops, so that it runs in the environment of the other libraries.
"""

import json
import sys
import time
import warnings
from importlib.metadata import version

import numpy as np
import pyarrow.parquet as pq


def clock():
    """Wall-clock and CPU seconds."""
    return np.array([time.perf_counter(), time.process_time()])


def scikit_learn(log, test):
    from scipy.sparse import hstack
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import OneHotEncoder

    encoder = OneHotEncoder(handle_unknown="ignore")

    def design(rows, one_hot):
        return hstack([one_hot, rows["logit"][:, None]]).tocsr()

    begun = clock()
    model = LogisticRegression(C=1.0, max_iter=1000)
    model.fit(design(log, encoder.fit_transform(log["item_id"][:, None])), log["label"])
    spent = clock() - begun
    answer = model.predict_proba(design(test, encoder.transform(test["item_id"][:, None])))[:, 1]
    return "LogisticRegression(C=1), one-hot items", spent, answer


def statsmodels(log, test):
    from scipy.sparse import csr_matrix
    from statsmodels.genmod.bayes_mixed_glm import BinomialBayesMixedGLM

    items = int(max(log["item_id"].max(), test["item_id"].max())) + 1

    def one_hot(rows):
        count = len(rows["item_id"])
        return csr_matrix((np.ones(count), (np.arange(count), rows["item_id"])), (count, items))

    def fixed(rows):
        return np.column_stack([np.ones(len(rows["logit"])), rows["logit"]])

    begun = clock()
    model = BinomialBayesMixedGLM(log["label"], fixed(log), one_hot(log), np.zeros(items, dtype=int))
    found = model.fit_vb()
    spent = clock() - begun
    eta = fixed(test) @ found.fe_mean + one_hot(test) @ found.vc_mean
    return "BinomialBayesMixedGLM, variational", spent, 1 / (1 + np.exp(-eta))


def mcgrad(log, test):
    import pandas as pd
    from mcgrad.methods import MCGrad

    def frame(rows):
        p = 1 / (1 + np.exp(-rows["logit"]))
        return pd.DataFrame({"p": p, "label": rows["label"], "item": rows["item_id"].astype(str)})

    begun = clock()
    model = MCGrad()
    model.fit(frame(log), "p", "label", categorical_feature_column_names=["item"])
    spent = clock() - begun
    return "MCGrad, item as category", spent, model.predict(frame(test), "p", ["item"])


def netcal(log, test):
    from netcal.scaling import LogisticCalibration

    def confidence(rows):
        return 1 / (1 + np.exp(-rows["logit"]))

    begun = clock()
    model = LogisticCalibration(method="mle")
    model.fit(confidence(log), log["label"])
    return "LogisticCalibration (Platt)", clock() - begun, model.transform(confidence(test))


PEERS = {"scikit-learn": scikit_learn, "statsmodels": statsmodels, "mcgrad": mcgrad, "netcal": netcal}


def main() -> None:
    warnings.simplefilter("ignore")
    name = sys.argv[1]
    logs = [
        {column: pq.read_table(path)[column].to_numpy() for column in ("item_id", "label", "logit")}
        for path in sys.argv[2:4]
    ]
    try:
        what, spent, answer = PEERS[name](*logs)
    except ImportError as error:
        sys.exit(f"{error} in the bench environment")
    from sklearn.metrics import log_loss, roc_auc_score

    p, y = np.clip(np.asarray(answer, float).ravel(), 1e-6, 1 - 1e-6), logs[1]["label"]
    figures = {"auc": float(roc_auc_score(y, p)), "nll": float(log_loss(y, p))}
    print(
        json.dumps({"what": what, "version": version(name), "fit": spent[0], "fit_cpu": spent[1], **figures})
    )


if __name__ == "__main__":
    main()
