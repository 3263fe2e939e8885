"""The site builds strictly, has offline search, and contacts no other host."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pages import ROOT

pytestmark = pytest.mark.slow
ASKED = re.compile(
    r"<(?:script|img|iframe|source)[^>]*\ssrc=\"(https?:[^\"]*)|<link[^>]*\shref=\"(https?:[^\"]*)"
)


def build(checkout: Path, site: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site)],
        cwd=checkout, capture_output=True, text=True, check=False,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )  # fmt: skip


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the files that the site is built from."""
    copy = tmp_path_factory.mktemp("docs")
    for name in ("docs", "slc_ops"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "mkdocs.yml", copy)
    return copy


def test_the_site_builds_and_no_page_contacts_another_host(checkout: Path, tmp_path: Path) -> None:
    done = build(checkout, tmp_path / "site")
    assert done.returncode == 0, done.stderr[-3000:]
    pages = list((tmp_path / "site").rglob("*.html"))
    assert len(pages) > 60
    for page in pages:
        assert not ASKED.search(page.read_text()), page
    assert (tmp_path / "site" / "search" / "search_index.js").is_file()  # a browser reads it without a server
    reference = (tmp_path / "site" / "api.html").read_text()
    assert "predict_proba" in reference
    assert "sample_weight" in reference


def test_a_dead_link_fails_the_build(checkout: Path, tmp_path: Path) -> None:
    page = checkout / "docs" / "concepts.md"
    text = page.read_text()
    try:
        for bad in ("[gone](nowhere.md)", "[gone](log.md#no-such-heading)"):
            page.write_text(f"{text}\n{bad}\n")
            done = build(checkout, tmp_path / "site")
            assert done.returncode == 1
            assert "nowhere.md" in done.stderr or "no-such-heading" in done.stderr
    finally:
        page.write_text(text)
