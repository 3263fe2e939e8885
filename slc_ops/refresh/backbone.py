"""A new backbone: select rows of one version, and handle a champion that was fitted for another."""

from collections import Counter
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from slc_ops.base.digests import digest_json
from slc_ops.base.files import read_json, replacing, write_json
from slc_ops.base.parquet import log_writer, stored_batches, stored_schema
from slc_ops.refresh.gate import ACTOR
from slc_ops.refresh.observed import observed
from slc_ops.refresh.plan import Plan, PlannedWindow
from slc_ops.settings.environment import Installation

if TYPE_CHECKING:
    from slc_ops.rows.engine import Engine

COLUMN = "backbone_version"
BACKBONE_CHANGE = "backbone.json"
_END = 10
"""The serving version is the most frequent one of the last tenth of a window's rows."""


@dataclass(frozen=True)
class BackboneChange:
    """The newest window has another backbone than the champion was fitted for."""

    deployment: str
    window: str
    backbone_version: str
    champion: int
    champion_backbone: str
    retired: bool

    @property
    def sentence(self) -> str:
        """The sentence for the page, the status, the notification and the ledger."""
        then = "it was retired, the frozen model serves" if self.retired else "it still serves, by your rule"
        return (
            f"new backbone {self.backbone_version} in window {self.window}; champion {self.champion} was "
            f"fitted for {self.champion_backbone}, whose corrections do not apply: {then}"
        )


def exact_names(log: Path, names: set[str], engine: "Engine") -> set[str]:
    """Return the versions of the usable rows; ``names`` are those of the window's statistics.

    A single version of all rows is that of the usable ones. Otherwise the rows are read: some versions may
    only occur in quarantined rows, and long names are shortened in the statistics.
    """
    if len(names) < 2 and not any(name.endswith("…") for name in names):
        return names
    return set(engine.read(log).backbone_versions)


def serving_version(log: Path, names: set[str], engine: "Engine") -> str | None:
    """Return the backbone that served at the end of a window; None if the rows have no versions.

    A window that mixes versions is read by this process, whatever the engine.
    """
    import pyarrow.parquet as pq

    exact = exact_names(log, names, engine)
    if len(exact) < 2:
        return next(iter(exact), None)
    table = pq.read_table(log, columns=["event_time", COLUMN]).sort_by("event_time")
    last = table.slice(table.num_rows - max(1, table.num_rows // _END))
    in_last, in_all = (each.column(COLUMN).drop_null().to_pylist() for each in (last, table))
    counts = Counter(map(str, in_last or in_all))
    return max(sorted(counts), key=lambda version: counts[version])


def rows_of(window: PlannedWindow, version: str, engine: "Engine") -> PlannedWindow:
    """Write a mixed window's rows of one version beside it, a function of the window and the version."""
    import pyarrow.compute as pc

    from slc_ops.methods.fitting.window_sums import keep_sums

    key = digest_json([window.rows_key, version])
    target = window.log.parent / f"backbone-{key[:16]}.parquet"
    if not target.exists():
        schema = stored_schema(window.log)
        with replacing(target) as temporary, log_writer(temporary, schema) as part:
            for batch in stored_batches(window.log):
                part.write_batch(batch.filter(pc.equal(batch.column(COLUMN), version)))
    keep_sums(target, key, engine)
    return replace(window, log=target, rows_key=key)


@observed
def note_backbone(installation: Installation, plan: Plan) -> BackboneChange | None:
    """Detect that the newest window has another backbone than the champion, and retire it by the rule.

    Runs before the backtest, because a champion of another backbone is not compared. Repeating the refresh
    returns the same change. A window that ends no later than the champion's changes nothing: None.
    """
    from slc_ops.registry import Registry

    name, version = plan.deployment, plan.backbone_version
    registry = Registry.open(installation)
    line = registry.history(name)
    if version is None or not line:
        return None
    noted = line[-1].evidence.get("backbone")
    if line[-1].to_version is None and noted and noted["window"] == str(plan.window):
        return BackboneChange(**noted)
    champion = registry.champion(name)
    fitted = None if champion is None else registry.parameters(champion).provenance.backbone_version
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


def read_backbone_change(
    installation: Installation, name: str, champion: int | None
) -> BackboneChange | None:
    """Return the newest refresh's change of this champion's backbone; None if the champion has changed."""
    try:
        change = BackboneChange(**read_json(installation.refreshes(name) / BACKBONE_CHANGE))
    except (OSError, ValueError, TypeError):
        return None
    return change if change.champion == champion and not change.retired else None
