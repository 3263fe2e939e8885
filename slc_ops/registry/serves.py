"""The serving state in ``status``: the method, its first window, and the window of its parameters."""

from collections.abc import Sequence
from typing import Any

from slc_ops.registry.publication import ChampionChange, Version


def what_serves(
    champion: Version | None, line: Sequence[ChampionChange], versions: Sequence[Version]
) -> dict[str, Any] | None:
    """Return the champion's method, the window it serves since, and the window of its parameters.

    ``line`` contains the moves of the champion and ``versions`` the publications, both oldest first.
    ``series`` is the mean difference in NLL over the evidence windows, against Platt and the frozen model
    (``base``), at publication; None if not recorded. Returns None if the frozen model serves.
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
