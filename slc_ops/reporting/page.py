"""Pages from templates: everything that came from logs or settings is escaped, only our drawings are not."""

from typing import Any

from slc_ops.base import text
from slc_ops.reporting.style import Drawing


def render(template: str, drawings: dict[str, Drawing], **values: Any) -> str:
    """One self-contained page."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader("slc_ops.reporting"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        number=text.number,
        signed=text.signed,
        count=text.count,
        share=text.share,
        as_sentence=text.as_sentence,
    )
    shown = {
        name: {
            "title": each.title,
            "caption": each.caption,
            "svg": Markup(each.svg),  # noqa: S704 - matplotlib wrote it, and has escaped its texts
            "wide": each.wide,
        }
        for name, each in drawings.items()
    }
    return environment.get_template(template).render(drawings=shown, **values)
