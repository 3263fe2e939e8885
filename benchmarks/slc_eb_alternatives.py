"""The prior of ``slc_eb`` compared with other rules, on real flights and films.

    python benchmarks/slc_eb_alternatives.py [folder with ml-100k]

Pairs: New York's flights of 2013 in four season splits, with and without the route in the backbone;
MovieLens-100k (from the package index, or a folder) with three backbones, all users and a tenth of them. For
each rule: mean regret in NLL against the best single variance in hindsight, pairs missed (more than 0.001
above the better of platt and slc), pairs worse than both. Decision 0013 has a larger set of pairs.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import pyarrow as pa

from slc_ops.base.window import Window
from slc_ops.controls import film_backbones, flight_backbone, movielens
from slc_ops.controls.datasets import movielens_100k
from slc_ops.controls.flights import gather
from slc_ops.controls.ratings import read_ratings
from slc_ops.evidence.metrics import metrics_of
from slc_ops.methods import fit
from slc_ops.methods.fitting import prior_variance
from slc_ops.methods.fitting.calibration import Calibration, ItemOffsets
from slc_ops.methods.fitting.link import fit_link
from slc_ops.methods.fitting.prior_variance import Prior
from slc_ops.methods.slc_eb import joint_model
from slc_ops.numerics.curves import Affine
from slc_ops.numerics.newton import State
from slc_ops.parameters.effects import Effect
from slc_ops.parameters.parameter_set import ParameterSet
from slc_ops.rows.interactions import InteractionLog

SEASONS = {
    "year": ("2013-01-01/2013-05-06", "2013-05-06/2013-09-02", "2013-09-02/2013-12-30"),
    "turn": ("2013-01-01/2013-07-01", "2013-07-01/2013-09-30", "2013-09-30/2013-12-30"),
    "spring": ("2013-01-01/2013-04-01", "2013-04-01/2013-07-01", "2013-07-01/2013-09-30"),
    "month": ("2013-01-01/2013-06-01", "2013-06-01/2013-07-01", "2013-07-01/2013-08-01"),
}
Pair = tuple[str, pa.Table, pa.Table]


def flight_pairs() -> Iterator[Pair]:
    flights = gather(None, Path(mkdtemp()))
    for season, periods in SEASONS.items():
        train, *later = (Window.parse(text) for text in periods)
        known = flight_backbone.known(flights, train)
        for backbone in flight_backbone.BACKBONES:
            model = flight_backbone.train(flights, known, train, backbone, seed=0)
            tables = [
                pa.Table.from_batches(flight_backbone.scored(flights, known, period, model, backbone, 0))
                for period in later
            ]
            yield f"flights {season} {backbone}", *tables
            thin = np.random.default_rng(0).random(tables[0].num_rows) < 0.05
            yield f"flights {season} {backbone} 5%", tables[0].filter(pa.array(thin)), tables[1]


def film_pairs(data: Path) -> Iterator[Pair]:
    ratings, shape = movielens._coded(read_ratings(data))
    share = ratings["share"].to_numpy()
    for cuts in ((0.6, 0.8), (0.8, 0.9)):
        edges = (share < cuts[0], (share >= cuts[0]) & (share < cuts[1]), share >= cuts[1])
        parts = [ratings.filter(pa.array(rows)) for rows in edges]
        for backbone in (*film_backbones.BACKBONES, film_backbones.CONTRAST):
            logits = film_backbones.train(backbone, parts[0], shape, seed=0)
            tables = [
                pa.table({"item_id": part["item_id"], "user_id": part["user_id"], "event_time": part["share"],
                          "label": part["positive"], "logit": logits(part)})
                for part in parts[1:]
            ]  # fmt: skip
            yield f"films {cuts[0]} {backbone}", *tables
            few = [table.filter(pa.array(table["user_id"].to_numpy() % 10 == 0)) for table in tables]
            yield f"films {cuts[0]} {backbone} 10%", *few


def with_prior(log: InteractionLog, prior: Prior) -> ParameterSet:
    calibration = Calibration(log)
    if prior.variance == 0:
        return fit("platt", log)
    model = joint_model(calibration)
    start = State(np.zeros(2), np.zeros(calibration.n_items))
    offset = prior.lasting * model.minimise(model.visit(start), prior.variance).state.offset
    link = fit_link(calibration, ItemOffsets(offset))
    items = pa.table({"id": log.items, "offset": offset})
    return ParameterSet("slc_eb", Affine(link.a, link.b0), {"item": Effect(items.sort_by("id"))})


def chosen(log: InteractionLog, **settings: float) -> Prior:
    """The shipped rule with other constants."""
    kept = {name: getattr(prior_variance, name) for name in settings}
    try:
        for name, value in settings.items():
            setattr(prior_variance, name, value)
        calibration = Calibration(log)
        start = State(np.zeros(2), np.zeros(calibration.n_items))
        known = prior_variance.ChoiceRows.of(log)
        return prior_variance.choose_prior(known, joint_model(calibration), start)[0]
    finally:
        for name, value in kept.items():
            setattr(prior_variance, name, value)


RULES = {
    "v = 1": lambda log: Prior(1.0, 1.0, ""),
    "marginal likelihood": lambda log: chosen(log, LEAST_HELD_OUT=2.0),
    "users' last 30 %, v only": lambda log: chosen(log, HELD_OUT=0.3, PAST=0.0, MARGIN=np.inf),
    "users' last 20 %, v only": lambda log: chosen(log, PAST=0.0, MARGIN=np.inf),
    "users' last 20 %, v and s": lambda log: chosen(log, PAST=0.0),
    "shipped": chosen,
}


def main() -> None:
    data = Path(sys.argv[1]) if sys.argv[1:] else movielens_100k(Path("var/controls/movielens/data"))
    losses: dict[str, list[float]] = {name: [] for name in (*RULES, "platt", "slc", "best")}
    for name, calibration, test in (*flight_pairs(), *film_pairs(data)):
        log, later = InteractionLog.from_table(calibration), InteractionLog.from_table(test)

        def nll(parameters: ParameterSet, later: InteractionLog = later) -> float:
            return metrics_of(later.label, parameters.apply(later)).nll or np.inf

        for rule, choose in RULES.items():
            losses[rule].append(nll(with_prior(log, choose(log))))
        for method in ("platt", "slc"):
            losses[method].append(nll(fit(method, log)))
        tried = [nll(with_prior(log, Prior(v, 1.0, ""))) for v in (0.0, *prior_variance.VARIANCES)]
        losses["best"].append(min(tried))
        row = "  ".join(f"{rule} {losses[rule][-1]:.4f}" for rule in ("platt", "slc", "shipped", "best"))
        print(f"{name:28s} {log.n_rows:7d} rows  {row}", flush=True)
    found = {name: np.array(values) for name, values in losses.items()}
    better, worse = np.minimum(found["platt"], found["slc"]), np.maximum(found["platt"], found["slc"])
    print(f"\n{len(better)} pairs{'':19s}regret  missed  both")
    for rule in RULES:
        regret, missed = np.mean(found[rule] - found["best"]), np.sum(found[rule] > better + 0.001)
        print(f"{rule:26s} {regret:.5f}  {missed:6d}  {np.sum(found[rule] > worse):4d}")


if __name__ == "__main__":
    main()
