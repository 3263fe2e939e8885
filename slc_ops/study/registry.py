"""The table of backbones, with their sizes."""

import importlib
from dataclasses import dataclass
from typing import Any

from slc_ops.base.errors import SettingsError

FEW_SKILLS = 128
"""Number of skills above which LPKT takes fewer windows per step."""


@dataclass(frozen=True)
class Backbone:
    """A network, its sizes and its training: Adam's rate, windows per step, maximum epochs, patience.

    A network ignores sizes that it does not need.
    """

    name: str
    sees_items: bool
    width: int
    heads: int = 4
    memory: int = 20
    length: int = 200
    dropout: float = 0.2
    rate: float = 3e-3
    batch: int = 32
    epochs: int = 30
    patience: int = 3

    def windows_per_step(self, skills: int) -> int:
        """Return the windows per step; LPKT has a state per skill and row, so many skills need fewer windows.

        >>> BACKBONES["lpkt"].windows_per_step(100), BACKBONES["lpkt"].windows_per_step(1024)
        (32, 4)
        """
        most = self.batch * FEW_SKILLS // skills if self.name == "lpkt" else self.batch
        return max(1, min(self.batch, most))

    def network(self, skills: int, items: int) -> Any:
        """Return the network with initial weights from PyTorch's global generator."""
        module = importlib.import_module(f"slc_ops.study.backbones.{self.name}")
        return getattr(module, self.name.upper())(skills, items, self)


BACKBONES = {
    each.name: each
    for each in (
        Backbone("dkt", sees_items=False, width=64, dropout=0.4, batch=16),
        Backbone("sakt", sees_items=False, width=64, rate=1e-3),
        Backbone("dkvmn", sees_items=False, width=64),
        Backbone("akt", sees_items=True, width=64, heads=2, length=100, rate=1e-3, epochs=8, patience=1),
        Backbone("lpkt", sees_items=True, width=32, length=100, epochs=8, patience=1),
    )
}


def backbones_called(names: str) -> list[Backbone]:
    """Return the backbones of a comma-separated list.

    >>> [each.name for each in backbones_called("dkt,akt")]
    ['dkt', 'akt']
    """
    wanted = [name.strip().lower() for name in names.split(",") if name.strip()]
    unknown = [name for name in wanted if name not in BACKBONES]
    if unknown or not wanted:
        raise SettingsError(f"no backbone {', '.join(unknown) or names!r}; there are: {', '.join(BACKBONES)}")
    return [BACKBONES[name] for name in dict.fromkeys(wanted)]
