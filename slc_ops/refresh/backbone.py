"""A new backbone: rows of one version only, and what becomes of a champion that was fitted for another."""

from collections import Counter
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slc_ops.base.files import digest_json, read_json, replacing, write_json
from slc_ops.base.parquet import log_writer, open_parquet
from slc_ops.refresh.observed import observed
from slc_ops.refresh.plan import Plan, PlannedWindow
from slc_ops.settings.deployments import Installation

if TYPE_CHECKING:
    from slc_ops.rows.engine import Engine

COLUMN = "backbone_version"
BACKBONE_CHANGE = "backbone.json"
ACTOR = "refresh"
_END = 10
"""The version that serves is the commonest one of the last tenth of a window's rows."""


@dataclass(frozen=True)
class BackboneChange:
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


def exact_names(log: Path, names: set[str], engine: "Engine") -> set[str]:
    """The versions that usable rows name; ``names`` are those of the window's statistics.

    A single name of all rows is that of the usable ones. Of several, some may have gone with rows that were
    put aside, and a long name is kept shortened: then the rows are asked.
    """
    from slc_ops.rows.engine import LOCAL

    if len(names) < 2 and not any(name.endswith("…") for name in names):
        return names
    return set(versions_of(log) if engine is LOCAL else engine.read(log).backbone_versions)


def serving_version(log: Path, names: set[str], engine: "Engine") -> str | None:
    """The backbone that served at the end of a window; None where the rows do not name it.

    A window that mixes versions is read by this process, whatever the engine.
    """
    import pyarrow.parquet as pq

    exact = exact_names(log, names, engine)
    if len(exact) < 2:
        return next(iter(exact), None)
    table = pq.read_table(log, columns=["event_time", COLUMN]).sort_by("event_time")
    last = table.slice(table.num_rows - max(1, table.num_rows // _END)).column(COLUMN).drop_null().to_pylist()
    counts = Counter(str(version) for version in last) or versions_of(log)
    return max(sorted(counts), key=lambda version: counts[version])


def rows_of(window: PlannedWindow, version: str, engine: "Engine") -> PlannedWindow:
    """A mixed window's rows of one version, beside it; they are a function of the window and the version."""
    import pyarrow.compute as pc

    from slc_ops.methods.fitting.window_sums import keep_sums

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
    keep_sums(target, key, engine)
    return replace(window, log=target, rows_key=key)


@observed
def note_backbone(installation: Installation, plan: Plan) -> BackboneChange | None:
    """Say when the newest window is of another backbone than the champion, and retire it by the rule.

    Before anything is compared: a champion of another backbone is not compared. The same refresh again finds
    what it did. An older window than the champion's says nothing.
    """
    from slc_ops.registry import Registry

    name, version = plan.deployment, plan.backbone_version
    registry = Registry.open(installation)
    line = registry.history(name)
    if version is None or not line:
        return None
    told = line[-1].evidence.get("backbone")
    if line[-1].to_version is None and told and told["window"] == str(plan.window):
        return BackboneChange(**told)
    champion = registry.champion(name)
    fitted = None if champion is None else _fitted_for(registry, champion)
    if champion is None or fitted in (None, version) or plan.window.end <= champion.window.end:
        (installation.refreshes(name) / BACKBONE_CHANGE).unlink(missing_ok=True)
        return None
    retires = installation.deployment(name).champion_of_another_backbone == "retire"
    change = BackboneChange(name, str(plan.window), version, champion.number, str(fitted), retires)
    if retires:
        registry.retire(
            name,
            actor=ACTOR,
            reason=f"the backbone changed from {fitted} to {version} in window {plan.window}",
            evidence={"backbone": asdict(change)},
            automatic=True,
            against=champion.number,
        )
    write_json(installation.refreshes(name) / BACKBONE_CHANGE, asdict(change))
    return change


def _fitted_for(registry: Any, champion: Any) -> str | None:
    from tempfile import TemporaryDirectory

    from slc_ops.parameters.parameter_set import ParameterSet

    with TemporaryDirectory(prefix="slc-champion-") as scratch:
        found = ParameterSet.read(registry.parameters(champion, Path(scratch)))
    return found.provenance.backbone_version


def read_backbone_change(
    installation: Installation, name: str, champion: int | None
) -> BackboneChange | None:
    """What the newest refresh said of this champion's backbone, where that is still the champion."""
    try:
        change = BackboneChange(**read_json(installation.refreshes(name) / BACKBONE_CHANGE))
    except (OSError, ValueError, TypeError):
        return None
    return change if change.champion == champion and not change.retired else None
