"""``slc_mix`` compared with ``slc_eb`` on many rows, and with other libraries on a million.

    python benchmarks/mix_speed.py large [--rows 20000000] [--users 200000]
    python benchmarks/mix_speed.py large --rows 1000000 --users 1000000 --once
    python benchmarks/mix_speed.py older [--rows 13000000] [--users 100000]
    python benchmarks/mix_speed.py peers --python ENV/bin/python [--rows 1000000]

``large``: 50,000 items, 200 groups, a standard deviation of 0.5 per item's offset, 0.4 per item's slope, 0.5
per group (and 0.5 per user with ``--users``), so that every block enters. Both methods are fitted one after
the other to the same log in memory, without shared intermediate results; seconds are CPU seconds, and the
peak is that of the process. With ``--users`` the effects of ``slc_mix`` include ``user``; with ``--once``
each user has one row.

``older``: 26 windows whose items drift (half of an item's variance lasts, half changes with a half-life of
eight windows); fitted with all rows, with rows limited to a quarter of them (as 130 million rows are), and
with the windows of ``slc_eb`` alone; NLL on the next window.

``peers``: 5,000 items, 100 groups, the same effects without users; fitted on the first rows, scored on as
many later ones. ENV holds gpboost, mcgrad, scikit-learn and pyarrow (requirements-bench.txt). Each library
runs in a separate process with all cores: gpboost with an intercept per item and per group and the logit
as offset, one-hot logistic regression of items, groups and the logit, MCGrad with item and group as
categories.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

SPREAD = {"item": 0.5, "slope": 0.4, "group": 0.5, "user": 0.5}


def table(rows: int, items: int, groups: int, users: int, seed: int) -> pa.Table:
    """Rows of a frozen model without any of the effects; item frequencies follow 1/rank^0.6."""
    rng, fixed = np.random.default_rng(seed), np.random.default_rng(0)
    sizes = {"item": items, "slope": items, "group": groups, "user": users or 1}
    effects = {name: fixed.normal(0, sd, sizes[name]) for name, sd in SPREAD.items()}
    member = fixed.integers(0, groups, items)
    chance = np.arange(1, items + 1) ** -0.6
    item = np.searchsorted(np.cumsum(chance) / chance.sum(), rng.random(rows)).astype(np.int32)
    user = rng.integers(0, users or max(rows // 100, 1), rows).astype(np.int32)
    logit = rng.normal(0, 1.2, rows)
    eta = 0.9 * logit + 0.2 + effects["item"][item] + effects["slope"][item] * logit
    eta += effects["group"][member[item]]
    if users:
        eta += effects["user"][user]
    label = (rng.random(rows) < 1 / (1 + np.exp(-eta))).astype(np.int8)
    start = (seed - 1) * rows
    return pa.table(
        {"event_time": np.arange(start, start + rows), "user_id": user, "item_id": item,
         "group_id": member[item].astype(np.int32), "label": label, "logit": logit}
    )  # fmt: skip


def nll(label: np.ndarray, p: np.ndarray) -> float:
    """Mean negative log likelihood."""
    p = np.clip(np.asarray(p, float).ravel(), 1e-6, 1 - 1e-6)
    return float(-np.mean(np.where(label == 1, np.log(p), np.log1p(-p))))


def fitted(method: str, log: object, effects: tuple[str, ...]) -> tuple[object, dict[str, float]]:
    """A fit with its wall-clock and CPU seconds."""
    from slc_ops.methods import FitOptions, fit_prepared
    from slc_ops.methods.fitting.calibration import Calibration

    begun = time.perf_counter(), time.process_time()
    found = fit_prepared(method, Calibration(log, None, FitOptions(effects=effects)))  # type: ignore[arg-type]
    return found, {"seconds": time.perf_counter() - begun[0], "cpu": time.process_time() - begun[1]}


def large(rows: int, users: int, path: Path) -> None:
    """Both methods on the log, and the effects that entered."""
    from slc_ops.rows.interactions import InteractionLog

    effects = ("item", "slope", "group", *(["user"] if users else []))
    log = InteractionLog.read(path)
    spent = {}
    for method in ("slc_eb", "slc_mix"):
        found, spent[method] = fitted(method, log, effects)
        has = {name: each.table.column_names for name, each in found.effects.items()}  # type: ignore[attr-defined]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    ratio = spent["slc_mix"]["cpu"] / spent["slc_eb"]["cpu"]
    entered = [*has, *(["slope"] if "slope" in has["item"] else [])]
    figures = {"rows": rows, "users": users, **spent, "cpu_ratio": ratio, "peak_gb": peak, "entered": entered}
    print(json.dumps(figures), flush=True)


def drifting(rows: int, items: int, groups: int, users: int, window: int) -> pa.Table:
    """One window of a log whose items drift; item frequencies follow 1/rank."""
    fixed, rng = np.random.default_rng(0), np.random.default_rng(window + 1)
    lasting, slope = fixed.normal(0, 0.35, items), fixed.normal(0, 0.3, items)
    group, of_user = fixed.normal(0, 0.4, groups), fixed.normal(0, 0.5, users or 1)
    member, keep = fixed.integers(0, groups, items), 0.5 ** (1 / 8)
    passing = fixed.normal(0, 0.35, items)
    for _ in range(window):
        passing = keep * passing + np.sqrt(1 - keep**2) * fixed.normal(0, 0.35, items)
    chance = 1.0 / np.arange(1, items + 1)
    item = np.searchsorted(np.cumsum(chance) / chance.sum(), rng.random(rows)).astype(np.int32)
    user, logit = rng.integers(0, users or 1, rows).astype(np.int32), rng.normal(0, 1.2, rows)
    eta = 0.9 * logit + 0.2 + (lasting + passing)[item] + slope[item] * logit + group[member[item]]
    eta += of_user[user] if users else 0.0
    label = (rng.random(rows) < 1 / (1 + np.exp(-eta))).astype(np.int8)
    time_of = window + np.sort(rng.random(rows))
    return pa.table(
        {"event_time": time_of, "user_id": user, "item_id": item,
         "group_id": member[item].astype(np.int32), "label": label, "logit": logit.astype(np.float32)}
    )  # fmt: skip


def older(rows: int, users: int, windows: int = 26) -> None:
    """The loss caused by sampling old rows."""
    from slc_ops.methods import FitOptions, fit_prepared
    from slc_ops.methods.fitting import older_rows
    from slc_ops.methods.fitting.calibration import Calibration
    from slc_ops.methods.fitting.options import Forgetting
    from slc_ops.rows.interactions import InteractionLog

    tables = [drifting(rows // windows, 50_000, 200, users, each) for each in range(windows + 1)]
    options = FitOptions(effects=("item", "slope", "group", *(["user"] if users else [])))
    logs = [InteractionLog.from_table(pa.concat_tables(tables[-1 - each : -1])) for each in (4, 8, windows)]
    test, forget = InteractionLog.from_table(tables[-1]), Forgetting(tuple(map(float, range(windows))), 8.0)
    del tables
    for name, most in (("all rows", rows), ("a quarter", rows // 4), ("eight windows", 0)):
        older_rows.MOST_ROWS = most
        link, long, further = (Calibration(log, None, options) for log in logs)
        further.forget = forget
        begun = time.process_time()
        found = fit_prepared("slc_mix", link, long, further if most else None)
        spent = time.process_time() - begun
        entered = [
            *found.effects,
            *(["slope"] if "slope" in found.effects["item"].table.column_names else []),
        ]
        worth = nll(np.asarray(test.label), found.apply(test))
        print(
            name,
            json.dumps({"rows": found.n_rows, "cpu": spent, "nll": worth, "entered": entered}),
            flush=True,
        )
    found = fit_prepared("slc_eb", link, long)
    print("slc_eb", json.dumps({"rows": found.n_rows, "nll": nll(np.asarray(test.label), found.apply(test))}))


def peer(name: str, directory: Path) -> None:
    """One library, in its own process."""
    log, test = (
        {column: pq.read_table(directory / f"{part}.parquet")[column].to_numpy()
         for column in ("item_id", "group_id", "label", "logit")}
        for part in ("calibration", "test")
    )  # fmt: skip
    begun = time.perf_counter(), time.process_time()
    if name == "gpboost":
        import gpboost

        def pairs(rows: dict[str, np.ndarray]) -> np.ndarray:
            return np.column_stack([rows["item_id"], rows["group_id"]])

        model = gpboost.GPModel(group_data=pairs(log), likelihood="bernoulli_logit")
        one, other = (np.ones((len(each["label"]), 1)) for each in (log, test))
        model.fit(y=log["label"].astype(float), X=one, offset=log["logit"])
        spent = time.perf_counter() - begun[0], time.process_time() - begun[1]
        found = model.predict(
            group_data_pred=pairs(test), X_pred=other, offset_pred=test["logit"], predict_response=True
        )["mu"]
    elif name == "one-hot":
        from scipy.sparse import hstack
        from sklearn.linear_model import LogisticRegression
        from sklearn.preprocessing import OneHotEncoder

        encoder = OneHotEncoder(handle_unknown="ignore")

        def design(rows: dict[str, np.ndarray], encode: object) -> object:
            columns = np.column_stack([rows["item_id"], rows["group_id"]])
            return hstack([encode(columns), rows["logit"][:, None]]).tocsr()  # type: ignore[operator]

        regression = LogisticRegression(C=1.0, max_iter=1000)
        regression.fit(design(log, encoder.fit_transform), log["label"])
        spent = time.perf_counter() - begun[0], time.process_time() - begun[1]
        found = regression.predict_proba(design(test, encoder.transform))[:, 1]
    else:
        import pandas as pd
        from mcgrad.methods import MCGrad

        def frame(rows: dict[str, np.ndarray]) -> object:
            kinds = {kind: rows[f"{kind}_id"].astype(str) for kind in ("item", "group")}
            return pd.DataFrame({"p": 1 / (1 + np.exp(-rows["logit"])), "label": rows["label"], **kinds})

        booster = MCGrad()
        booster.fit(frame(log), "p", "label", categorical_feature_column_names=["item", "group"])
        spent = time.perf_counter() - begun[0], time.process_time() - begun[1]
        found = booster.predict(frame(test), "p", ["item", "group"])
    print(json.dumps({"seconds": spent[0], "cpu": spent[1], "nll": nll(test["label"], found)}))


def peers(rows: int, python: str, items: int = 5_000, groups: int = 100) -> None:
    """Ours and the other libraries, in sequence."""
    from slc_ops.rows.interactions import InteractionLog

    with TemporaryDirectory() as scratch:
        for seed, part in ((1, "calibration"), (2, "test")):
            pq.write_table(table(rows, items, groups, 0, seed), Path(scratch) / f"{part}.parquet")
        log, test = (
            InteractionLog.read(Path(scratch) / f"{part}.parquet") for part in ("calibration", "test")
        )
        for method in ("platt", "slc_eb", "slc_mix"):
            found, spent = fitted(method, log, ("item", "slope", "group"))
            worth = nll(np.asarray(test.label), found.apply(test))  # type: ignore[attr-defined]
            print(method, json.dumps({**spent, "nll": worth}), flush=True)
        for name in ("one-hot", "gpboost", "mcgrad"):
            command = [python, __file__, "peer", "--name", name, "--data", scratch]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            lines = (done.stderr if done.returncode else done.stdout).strip().splitlines()
            print(name, lines[-1] if lines else "nothing", flush=True)


def main() -> None:
    """Run one of the modes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=["large", "older", "peers", "peer", "fit-large"])
    parser.add_argument("--rows", type=int)
    parser.add_argument("--users", type=int, default=0)
    parser.add_argument("--once", action="store_true")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--name", default="")
    parser.add_argument("--data", type=Path)
    asked = parser.parse_args()
    if asked.what == "peer":
        peer(asked.name, asked.data)
    elif asked.what == "older":
        older(asked.rows or 13_000_000, asked.users)
    elif asked.what == "peers":
        peers(asked.rows or 1_000_000, asked.python)
    elif asked.what == "fit-large":
        large(asked.rows, asked.users, asked.data)
    else:
        rows = asked.rows or 20_000_000
        with (
            TemporaryDirectory() as scratch
        ):  # the rows are generated in another process, whose memory is then free
            path = Path(scratch) / "log.parquet"
            made = table(rows, 50_000, 200, asked.users, 1)
            if asked.once:
                made = made.set_column(1, "user_id", pa.array(np.arange(rows)))
            pq.write_table(made, path)
            command = [sys.executable, __file__, "fit-large", "--data", str(path)]
            command += ["--rows", str(rows), "--users", str(asked.users)]
            subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
