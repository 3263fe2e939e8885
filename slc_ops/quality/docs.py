"""Data docs: a page per window, readable without a network."""

from collections.abc import Sequence
from typing import Any

from slc_ops.base.files import read_json, write_text
from slc_ops.base.window import Window
from slc_ops.intake.manifest import WindowManifest
from slc_ops.quality.measures import day_ratios, usual_days
from slc_ops.quality.result import PAGE, RESULT, ValidationResult
from slc_ops.quality.statistics import Statistics
from slc_ops.quality.suite import Evaluated

INDEX = "index.html"


def write_page(
    result: ValidationResult,
    manifest: WindowManifest,
    evaluated: Sequence[Evaluated],
    before: Sequence[Statistics],
    now: Statistics,
) -> None:
    """Write the window's page."""
    page = template("window.html").render(
        deployment=manifest.directory.parent.name,
        result=result,
        manifest=manifest,
        now=now,
        before=before,
        evaluated=evaluated,
        trends=trends([*before, now]),
        days=zip(
            manifest.window.dates,
            now.rows_by_day,
            usual_days(now, before),
            day_ratios(now, before),
            strict=True,
        ),
        index=f"../{INDEX}",
    )
    write_text(result.docs_path, page)


def write_index(manifest: WindowManifest, keep: int) -> None:
    """List the newest ``keep`` windows from their result files, and delete the pages of older ones."""
    directory = manifest.directory.parent
    evaluated = sorted(path.parent for path in directory.glob(f"[!.]*/{RESULT}"))
    for old in evaluated[:-keep]:
        (old / PAGE).unlink(missing_ok=True)
    verdicts = {f"{each.name}/{PAGE}": read_json(each / RESULT) for each in reversed(evaluated[-keep:])}
    entries = [(link, Window.from_dict(each["window"]), each) for link, each in verdicts.items()]
    write_text(directory / INDEX, template("index.html").render(deployment=directory.name, entries=entries))


def trends(windows: Sequence[Statistics]) -> list[dict[str, Any]]:
    """Return small charts over the trailing windows, with the evaluated window last."""
    series = (
        ("Rows", [float(s.rows) for s in windows], "{:,.0f}"),
        ("Label rate", [s.label_rate for s in windows], "{:.3f}"),
        ("Mean logit", [s.logit_mean for s in windows], "{:.3f}"),
        ("Sd of logits", [s.logit_sd for s in windows], "{:.3f}"),
        ("Items", [float(s.items) for s in windows], "{:,.0f}"),
    )
    return [
        {"name": name, "svg": trend(values), "value": shown(values[-1:], form), "span": shown(values, form)}
        for name, values, form in series
    ]


def shown(values: Sequence[float | None], form: str) -> str:
    """Return the lowest and the highest value, or the only one.

    >>> shown([1.0, None, 3.0], "{:.1f}"), shown([None], "{:.1f}")
    ('1.0 to 3.0', '–')
    """
    known = [value for value in values if value is not None]
    if not known:
        return "–"
    low, high = form.format(min(known)), form.format(max(known))
    return low if low == high else f"{low} to {high}"


def template(name: str) -> Any:
    """Return a template of this package; it escapes all values."""
    from jinja2 import Environment, PackageLoader

    loader = PackageLoader("slc_ops.quality")
    return Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True).get_template(
        name
    )


WIDTH, HEIGHT, MARGIN = 160, 44, 5


def trend(values: Sequence[float | None]) -> str:
    """Return an SVG line of the values from left to right, the last one marked; None is omitted.

    >>> trend([1.0, 2.0]).count("<circle")
    1
    """
    known = [(k, value) for k, value in enumerate(values) if value is not None]
    low = min((value for _, value in known), default=0.0)
    high = max((value for _, value in known), default=1.0)
    if high - low < 1e-12:  # a constant series runs through the middle
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
