"""A line of a few values as inline SVG: no script, no network, no plotting library."""

from collections.abc import Sequence

WIDTH, HEIGHT, MARGIN = 160, 44, 5


def trend(values: Sequence[float | None]) -> str:
    """The values from left to right, the last one marked; None is left out.

    >>> trend([1.0, 2.0]).count("<circle")
    1
    """
    known = [(k, value) for k, value in enumerate(values) if value is not None]
    low = min((value for _, value in known), default=0.0)
    high = max((value for _, value in known), default=1.0)
    if high - low < 1e-12:  # a flat line runs through the middle
        low, high = low - 1.0, high + 1.0
    step = (WIDTH - 2 * MARGIN) / max(len(values) - 1, 1)
    points = [
        (MARGIN + k * step, MARGIN + (HEIGHT - 2 * MARGIN) * (high - value) / (high - low))
        for k, value in known
    ]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    mark = f'<circle cx="{points[-1][0]:.1f}" cy="{points[-1][1]:.1f}" r="3.5"/>' if points else ""
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" aria-hidden="true">'
        f'<polyline points="{line}"/>{mark}</svg>'
    )
