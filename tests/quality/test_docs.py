"""The validation pages: offline, safe to open, limited in number."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pyarrow as pa
import pytest

from slc_ops.base.errors import ValidationStopped
from slc_ops.intake.extract import extract
from slc_ops.quality import verdict
from slc_ops.quality.verdict import Baseline, validate
from tests.quality import damage as d
from tests.quality.lake_bench import NEWEST, Bench


class Links(HTMLParser):
    """The addresses and scripts of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.found += [str(value) for name, value in attrs if name in ("src", "href", "action")]


def links(page: Path) -> Links:
    parser = Links()
    parser.feed(page.read_text(encoding="utf-8"))
    return parser


def test_a_page_loads_nothing_from_other_hosts(bench: Bench) -> None:
    d.first_rows("logit", d.FEW, float("nan"))(bench)
    page = links(bench.validate().docs_path)
    assert not page.tags & {"script", "link", "iframe", "img"}
    assert page.found == ["../index.html", "quarantine.parquet"]


def test_the_page_shows_the_findings(bench: Bench) -> None:
    d.first_rows("label", d.MANY, 2)(bench)
    with pytest.raises(ValidationStopped):
        bench.validate()
    text = (bench.installation.windows("demo") / NEWEST.key / "validation.html").read_text(encoding="utf-8")
    for words in (
        "cannot be used",
        "label must be 0 or 1",
        "500 rows (25.000%)",
        "<code>label=2</code>",
        "stopped",
    ):
        assert words in text


def test_text_from_the_log_is_escaped(bench: Bench) -> None:
    nasty = "<script>alert('x')</script>"
    d.replacing("backbone_version", lambda rows: pa.array([nasty] * rows.num_rows))(bench)
    bench.validate()
    page = bench.installation.windows("demo") / NEWEST.key / "validation.html"
    assert "script" not in links(page).tags
    assert "&lt;script&gt;" in page.read_text(encoding="utf-8")


def test_the_index_links_to_every_page(bench: Bench) -> None:
    bench.validate()
    index = bench.installation.windows("demo") / "index.html"
    assert links(index).found == [f"{w.key}/validation.html" for w in reversed([*NEWEST.before(3), NEWEST])]
    assert all((index.parent / target).exists() for target in links(index).found)


def test_only_the_newest_windows_keep_a_page(bench: Bench) -> None:
    bench.configure(quality={"docs_windows": 2})
    directory = bench.installation.windows("demo")
    known = []
    for window in [*NEWEST.before(3), NEWEST]:
        manifest = extract(bench.deployment, window, directory, home=bench.installation.home)
        validate(manifest, Baseline(known), bench.deployment.quality)
        known.append(manifest)
    assert len(list(directory.glob("*/validation.html"))) == 2
    assert len(links(directory / "index.html").found) == 2
    assert len(list(directory.glob("*/validation.json"))) == 4


def test_every_result_has_a_page(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A validation killed before its page was written is repeated."""

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(verdict, "write_page", killed)
        with pytest.raises(KeyboardInterrupt):
            bench.validate()
    assert bench.validate().docs_path.exists()


def test_figures_show_the_trailing_weeks(bench: Bench) -> None:
    text = bench.validate().docs_path.read_text(encoding="utf-8")
    lines = re.findall(r'<polyline points="([^"]*)"', text)
    assert len(lines) == 5
    assert {len(line.split()) for line in lines} == {4}
