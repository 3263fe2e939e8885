"""MLflow's aliases as a projection of the ledger: written from it, compared with it, repaired from it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from slc_ops.base.errors import RegistryError
from slc_ops.base.names import RETIRED_TAG
from slc_ops.registry.ledger import Head, Ledger
from slc_ops.registry.publication import CHALLENGER, CHAMPION, ChampionChange
from slc_ops.settings.environment import registered_model

if TYPE_CHECKING:
    from mlflow import MlflowClient

REVISION_TAG = "ledger_revision"


@dataclass(frozen=True)
class Gap:
    """An alias that differs from the ledger."""

    deployment: str
    alias: str
    ledger: int | None
    registry: int | None

    def __str__(self) -> str:
        if self.alias == RETIRED_TAG:
            found = "no retirement" if self.registry is None else f"that change {self.registry} retired it"
            wanted = "there is one" if self.ledger is None else f"change {self.ledger} retired it"
            return f"{self.deployment}: the ledger's champion: {wanted}; the model in MLflow: {found}"
        return (
            f"{self.deployment}: the ledger's {self.alias} is {_say(self.ledger)}, "
            f"the alias in MLflow points to {_say(self.registry)}"
        )


def gaps(client: "MlflowClient", head: Head) -> list[Gap]:
    """Return the differences between a deployment's aliases and its row in the ledger."""
    found = _read(client, head.deployment)
    retired = head.revision if head.champion is None and head.revision else None
    wanted = {CHAMPION: head.champion, CHALLENGER: head.challenger, RETIRED_TAG: retired}
    return [
        Gap(head.deployment, alias, number, found.get(alias))
        for alias, number in wanted.items()
        if found.get(alias) != number
    ]


def project(client: "MlflowClient", ledger: Ledger, deployment: str) -> list[Gap]:
    """Set the aliases to the ledger's state, read them back and return the gaps that were closed.

    It holds a lock and uses the ledger's current row: the last caller writes the newest state, so a slow
    process cannot restore an old champion. A row that contradicts the champion history raises
    :class:`RegistryError`; an alias that another ledger set stays unchanged.
    """
    with ledger.database.lock(f"aliases-{deployment}"):
        head = ledger.head(deployment)
        differing = gaps(client, head)
        line = ledger.line(deployment) if differing else []
        found = [gap for gap in differing if not of_another_ledger(client, gap, line)]
        if found and (head.champion, head.revision) != (line[-1].to_version if line else None, len(line)):
            raise RegistryError(
                f"the ledger contradicts itself about {deployment}, so no alias was touched: its row says "
                f"version {head.champion} after {head.revision} moves, its line has {len(line)}; run slc-ops "
                "verify --repair"
            )
        for gap in sorted(found, key=lambda gap: gap.alias != RETIRED_TAG):  # tag first, then the alias
            _close(client, gap, line)
        again = gaps(client, head) if found else []
        left = [gap for gap in again if not of_another_ledger(client, gap, line)]
    if left:
        raise RegistryError(f"{left[0]}, although it was set; run slc-ops verify --repair")
    return found


def _close(client: "MlflowClient", gap: Gap, line: Sequence[ChampionChange]) -> None:
    name = registered_model(gap.deployment)
    if gap.alias == RETIRED_TAG:
        if gap.ledger is None:
            client.delete_registered_model_tag(name, RETIRED_TAG)
        else:
            client.set_registered_model_tag(name, RETIRED_TAG, str(gap.ledger))
    elif gap.ledger is None:
        client.delete_registered_model_alias(name, gap.alias)
    else:
        if gap.alias == CHAMPION:
            _mark(client, line[-1])
        client.set_registered_model_alias(name, gap.alias, str(gap.ledger))


def of_another_ledger(client: "MlflowClient", gap: Gap, line: Sequence[ChampionChange]) -> bool:
    """Return True if another ledger set this champion's alias, and this ledger has no champion history.

    A lost ledger, or an address of a new one, must not remove the champion from the serving hosts. Every
    promotion tags its version; an alias that was set by hand has no tag.
    """
    if gap.alias == CHALLENGER or gap.ledger is not None or gap.registry is None or line:
        return False
    if gap.alias == RETIRED_TAG:
        return True
    version = client.get_model_version(registered_model(gap.deployment), str(gap.registry))
    return REVISION_TAG in version.tags


def _mark(client: "MlflowClient", move: ChampionChange) -> None:
    """Tag the version with its ledger revision before the alias moves; serving hosts read the tag."""
    for tag, value in ((REVISION_TAG, str(move.revision)), ("ledger_move", move.kind)):
        client.set_model_version_tag(registered_model(move.deployment), str(move.to_version), tag, value)


def _read(client: "MlflowClient", deployment: str) -> dict[str, int]:
    """Return the aliases and the retirement mark; SQL stores return int, REST returns str."""
    from mlflow.exceptions import MlflowException

    try:
        model = client.get_registered_model(registered_model(deployment))
    except MlflowException as error:
        if error.error_code == "RESOURCE_DOES_NOT_EXIST":
            return {}
        raise
    found = {alias: int(number) for alias, number in model.aliases.items()}
    mark = (model.tags or {}).get(RETIRED_TAG, "")
    return found | ({RETIRED_TAG: int(mark)} if mark.isdecimal() else {})


def _say(number: int | None) -> str:
    return "nothing" if number is None else f"version {number}"
