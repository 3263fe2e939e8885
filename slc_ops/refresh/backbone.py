"""A new backbone: rows of one version only, and what becomes of a champion that was fitted for another."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slc_ops.base.files import digest_json, read_json, replacing, write_json
from slc_ops.base.parquet import log_writer, open_parquet
from slc_ops.base.window import Window
from slc_ops.observability.steps import observed
from slc_ops.refresh.plan import Plan, PlannedWindow
from slc_ops.settings.deployments import Deployment, Places

if TYPE_CHECKING:
    from slc_ops.rows.engine import Engine

COLUMN = "backbone_version"
NEWS = "backbone.json"
ACTOR = "refresh"
_END = 10
"""The version that serves is the commonest one of the last tenth of a window's rows."""


@dataclass(frozen=True)
class News:
    """The newest window is of another backbone than the champion was fitted for."""

    deployment: str
    window: str
    backbone_version: str
    champion: int
    champion_backbone: str
    retired: bool

    @property
    def sentence(self) -> str:
        """For the page, the status, the notification and the ledger."""
        then = "it was retired, the frozen model serves" if self.retired else "it still serves, by your rule"
        return (
            f"new backbone {self.backbone_version} in window {self.window}; champion {self.champion} was "
            f"fitted for {self.champion_backbone}, whose corrections do not apply: {then}"
        )


def of_one_backbone(
    windows: Sequence[PlannedWindow], deployment: Deployment
) -> tuple[list[PlannedWindow], list[dict[str, str]]]:
    """The windows whose rows are of the backbone that served at the end of the newest one, and the others.

    A window that mixes versions is split where the deployment says so: its rows of that backbone stay. With
    ``allow_mixed_backbones`` everything stays as it is, and so does a window that names no version.
    """
    from slc_ops.rows.engine import engine_of

    if deployment.quality.allow_mixed_backbones or not windows:
        return list(windows), []
    engine = engine_of(deployment.engine)
    serving = serving_version(windows[-1].log, engine)
    if serving is None:
        return list(windows), []
    kept, left_out = [], []
    for each in windows:
        found = names_in(each.log, engine)
        if not found or set(found) == {serving}:
            kept.append(each)
        elif serving in found:
            kept.append(_part(each, serving, deployment))
        else:
            reason = f"of backbone {', '.join(sorted(found))}; the newest window is of {serving}"
            left_out.append({"window": str(each.window), "kind": "backbone", "reason": reason})
    return kept, left_out


def windows_before(
    first: Window, others: Sequence[tuple[Window, set[str]]], deployment: Deployment
) -> list[Window]:
    """The windows of the backbone that served before ``first``, whose offsets the new one may begin from.

    Of ``others``, windows of other backbones with their versions, those that are wholly of the newest version
    before ``first``. Where that is the long memory away there are none left, and so the influence ends.
    """
    if "slc_eb" not in deployment.methods:
        return []
    before = [(window, found) for window, found in others if window.end <= first.start and len(found) == 1]
    if not before:
        return []
    _, newest = max(before, key=lambda each: each[0].end)
    return [window for window, found in before if found == newest][-deployment.offset_windows :]


def versions_of(log: Path) -> Counter[str]:
    """Backbone version → rows; empty where the log does not name it."""
    found: Counter[str] = Counter()
    with open_parquet(log) as file:
        if COLUMN not in file.schema_arrow.names:
            return found
    with open_parquet(log, dictionaries=[COLUMN]) as file:
        for batch in file.iter_batches(columns=[COLUMN]):
            for entry in batch.column(0).value_counts().to_pylist():
                if entry["values"] is not None:
                    found[str(entry["values"])] += entry["counts"]
    return found


def names_in(log: Path, engine: "Engine") -> set[str]:
    """The versions that a log names; a cluster is asked only where the window's statistics do not tell."""
    from slc_ops.quality.statistics import FILE
    from slc_ops.rows.engine import LOCAL

    if engine is LOCAL:
        return set(versions_of(log))
    kept = log.parent / FILE
    known = set(read_json(kept)["versions"]) if kept.exists() else {"None"}
    # One name of all rows is that of those that were kept; "None" means rows without one, "…" a long name.
    if len(known) > 1 or any(name == "None" or name.endswith("…") for name in known):
        known = set(engine.read(log).backbone_versions)
    return known


def serving_version(log: Path, engine: "Engine | None" = None) -> str | None:
    """The backbone that served at the end of a window; None where the log does not name it.

    A window that mixes versions is looked at by this process, whatever the engine.
    """
    import pyarrow.parquet as pq

    from slc_ops.rows.engine import LOCAL

    if engine is not None and engine is not LOCAL and len(names := names_in(log, engine)) < 2:
        return next(iter(names), None)
    found = versions_of(log)
    if len(found) < 2:
        return next(iter(found), None)
    table = pq.read_table(log, columns=["event_time", COLUMN]).sort_by("event_time")
    last = table.slice(table.num_rows - max(1, table.num_rows // _END)).column(COLUMN).drop_null().to_pylist()
    counts = Counter(str(version) for version in last) or found
    return max(sorted(counts), key=lambda version: counts[version])


def _part(window: PlannedWindow, version: str, deployment: Deployment) -> PlannedWindow:
    """A mixed window's rows of one version, beside it; they are a function of the window and the version."""
    import pyarrow.compute as pc

    from slc_ops.methods.fitting.window_sums import keep_sums
    from slc_ops.rows.engine import engine_of

    key = digest_json([window.rows_key, version])
    target = window.log.parent / f"backbone-{key[:16]}.parquet"
    if not target.exists():
        with (
            open_parquet(window.log) as file,
            replacing(target) as temporary,
            log_writer(temporary, file.schema_arrow) as part,
        ):
            for batch in file.iter_batches():
                part.write_batch(batch.filter(pc.equal(batch.column(COLUMN), version)))
    keep_sums(target, key, engine_of(deployment.engine))
    return replace(window, log=target, rows_key=key)


@observed
def note_backbone(places: Places, plan: Plan) -> News | None:
    """Say when the newest window is of another backbone than the champion, and retire it by the rule.

    Before anything is compared: a champion of another backbone is no opponent. The same refresh again finds
    what it did. An older window than the champion's says nothing.
    """
    from slc_ops.refresh.fitting import engine_of_plan
    from slc_ops.registry import Registry

    name = plan.deployment
    version = serving_version(plan.newest.log, engine_of_plan(plan))
    registry = Registry.open(places)
    line = registry.history(name)
    if version is None or not line:
        return None
    told = line[-1].evidence.get("backbone")
    if line[-1].to_version is None and told and told["window"] == str(plan.window):
        return News(**told)
    champion = registry.champion(name)
    fitted = None if champion is None else _fitted_for(registry, champion)
    if champion is None or fitted in (None, version) or plan.window.end <= champion.window.end:
        (places.refreshes(name) / NEWS).unlink(missing_ok=True)
        return None
    retires = places.deployment(name).champion_of_another_backbone == "retire"
    news = News(name, str(plan.window), version, champion.number, str(fitted), retires)
    if retires:
        registry.retire(
            name,
            actor=ACTOR,
            reason=f"the backbone changed from {fitted} to {version} in window {plan.window}",
            evidence={"backbone": asdict(news)},
            automatic=True,
            against=champion.number,
        )
    write_json(places.refreshes(name) / NEWS, asdict(news))
    return news


def _fitted_for(registry: Any, champion: Any) -> str | None:
    from tempfile import TemporaryDirectory

    from slc_ops.parameters.parameter_set import ParameterSet

    with TemporaryDirectory(prefix="slc-champion-") as scratch:
        found = ParameterSet.read(registry.parameters(champion, Path(scratch)))
    return found.provenance.backbone_version


def read_news(places: Places, name: str, champion: int | None) -> News | None:
    """What the newest refresh said of this champion's backbone, where that is still the champion."""
    try:
        news = News(**read_json(places.refreshes(name) / NEWS))
    except (OSError, ValueError, TypeError):
        return None
    return news if news.champion == champion and not news.retired else None
