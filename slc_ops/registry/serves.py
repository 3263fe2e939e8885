"""What serves, as ``status`` tells it: the method since which window, the parameters of which."""

from collections.abc import Sequence
from typing import Any

from slc_ops.registry.publication import ChampionChange, Version


def what_serves(
    champion: Version | None, line: Sequence[ChampionChange], versions: Sequence[Version]
) -> dict[str, Any] | None:
    """The champion's method with the window it began to serve after, and the window of its parameters.

    ``line`` are the moves of the champion and ``versions`` those published, both oldest first. ``series`` is
    the mean difference in NLL over the windows of evidence, against Platt and the frozen model (``base``), as
    the champion was published with it; None where that is not recorded. None: the frozen model serves.
    """
    if champion is None:
        return None
    known = {version.number: version for version in versions}
    since = champion
    for move in reversed(line):
        before = known.get(move.to_version) if move.to_version is not None else None
        if before is None or before.method != champion.method:
            break
        since = before
    return {
        "method": champion.method,
        "since": since.window.as_dict(),
        "parameters": champion.window.as_dict(),
        "series": champion.metrics.get("series"),
    }
