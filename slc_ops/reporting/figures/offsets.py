"""What was learned per item, and how much of it was believed?"""

from pathlib import Path

import numpy as np

from slc_ops.base.text import count, number
from slc_ops.parameters.parameter_set import ParameterSet
from slc_ops.reporting.style import ACCENT, INK, MUTED, Drawing, new_figure, save, styled

SHOWN = 260


def draw(directory: Path, parameters: ParameterSet | None) -> Drawing | None:
    """Offsets by observations; grey lines lead from what the item's own rows say to what is believed."""
    if parameters is None or parameters.items is None or parameters.items.num_rows == 0:
        return None
    table = parameters.effects["item"].latest()
    n = table["n_obs"].to_numpy()
    offset = table["offset"].to_numpy()
    # Evenly through the order of counts: sparse and dense items are all represented, and a million items
    # make no larger page than three hundred.
    order = np.argsort(n, kind="stable")
    shown = order[np.unique(np.linspace(0, len(n) - 1, SHOWN).astype(int))]
    shown = shown[n[shown] > 0]
    with styled("offsets"):
        figure, axis = new_figure(3.3)
        axis.axhline(0, color=INK, linewidth=0.9)
        if "shrinkage" in table.column_names and table["shrinkage"].null_count == 0:
            kept = table["shrinkage"].to_numpy()[shown]
            raw = np.clip(offset[shown] / np.maximum(kept, 1e-9), -6, 6)
            axis.vlines(n[shown], offset[shown], raw, color=MUTED, alpha=0.5, linewidth=0.8)
        axis.plot(n[shown], offset[shown], "o", color=ACCENT, markersize=3, alpha=0.8, linewidth=0)
        axis.set_xscale("log")
        axis.set(xlabel="observations of the item (log scale)", ylabel="offset in logits")
        svg = save(figure, "offsets", directory)
    return Drawing(
        "offsets",
        "Offsets by observations of the item",
        f"Each dot is an item's offset ({len(shown)} of {count(len(n))} shown, evenly by count; their "
        f"standard deviation is {number(offset.std(), 2)}); the grey line leads to what its own rows alone "
        "would say. The prior pulls sparse items towards zero.",
        svg,
    )
