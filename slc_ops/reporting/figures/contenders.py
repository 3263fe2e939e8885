"""Every way to serve against Platt refitted every window: the mean over windows, and the next one's range."""

from pathlib import Path

from slc_ops.base.text import share
from slc_ops.evidence.replayed import SERVED, Replay
from slc_ops.evidence.uncertainty import Interval
from slc_ops.reporting.figures.served import WIDE, name_of
from slc_ops.reporting.style import INK, MUTED, Drawing, new_figure, save, styled, tone


def draw(directory: Path, replay: Replay) -> Drawing | None:
    """One row each: a thick line for the mean's interval, a thin one for the next window's."""
    found = replay.against("platt")
    if not found:
        return None
    with styled("contenders"):
        figure, axis = new_figure(0.9 + 0.36 * len(found), width=WIDE)
        for row, each in enumerate(found.values()):
            seen = each.statistic
            colour = tone(Interval(each.mean, seen.low, seen.high), -1)
            if seen.next_low is not None and seen.next_high is not None:
                axis.plot([seen.next_low, seen.next_high], [row, row], color=MUTED, linewidth=1.0)
            axis.plot([seen.low, seen.high], [row, row], color=colour, linewidth=3.4)
            axis.plot(each.mean, row, "o", color=colour, markersize=6.5)
        axis.axvline(0, color=INK, linewidth=0.9)
        names = [name if name == SERVED else name_of(name) for name in found]
        axis.set_yticks(range(len(names)), names)
        axis.get_yticklabels()[0].set_fontweight("bold")
        axis.set_ylim(len(names) - 0.4, -0.6)
        axis.grid(axis="y", visible=False)
        axis.set_title("Δ NLL to Platt refitted every window  (← better)")
        axis.locator_params(axis="x", nbins=5)
        svg = save(figure, "contenders", directory)
    return Drawing(
        "contenders",
        "All contenders against Platt",
        f"Dots are means over the windows, thick lines their {share(replay.confidence)} intervals, whose "
        "unit is the window. Thin lines span where a single further window is to be expected.",
        svg,
        wide=True,
    )
