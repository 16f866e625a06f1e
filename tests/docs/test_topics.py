"""Each topic of the reference's documentation has a page here, and every link of a page leads somewhere."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest

import pellucid as pl
import pellucid.as_jax.kernels
import pellucid.experimental.multihost_utils
import pellucid.export
import pellucid.extend.linear_util
import pellucid.test_util
import pellucid_profiler  # noqa: F401  (its errors)

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
TOPICS = tomllib.loads((DOCS / "topics.toml").read_text(encoding="utf-8"))
PAGES = sorted(path for path in DOCS.rglob("*.md") if path.parent.name != "api")
MIN_TOPICS = 109
"""Topics in the table of contents of the reference's documentation."""
LINK = re.compile(r"\]\((?!\w+:|<)([^)\s]+)\)")


def text_of(path: Path) -> str:
    """A page's Markdown without its code blocks."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        text = "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")
    return re.sub(r"^( *)```.*?^\1```$", "", text, flags=re.MULTILINE | re.DOTALL)


def anchors(path: Path) -> set[str]:
    """Anchors of a page's headings, as MyST and code hosts make them."""
    headings = re.findall(r"^#+ (.*)$", text_of(path), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def check(link: str, page: Path) -> None:
    """The file that `link` of `page` names exists, and has the anchor."""
    name, _, anchor = link.partition("#")
    target = (page.parent / name).resolve() if name else page
    assert target.exists(), f"{page.relative_to(ROOT)}: there is no {link}"
    assert not anchor or anchor in anchors(target), f"{page.relative_to(ROOT)}: no #{anchor}"


def test_every_topic_has_a_page() -> None:
    links = {(group, topic): link for group in TOPICS for topic, link in TOPICS[group].items()}
    assert len(links) >= MIN_TOPICS
    for link in links.values():
        check(link, DOCS / "topics.toml")


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(DOCS)))
def test_links_lead_somewhere(page: Path) -> None:
    for link in LINK.findall(text_of(page)):
        if not link.endswith(".html"):
            check(link, page)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(DOCS)))
def test_rows_of_a_table_have_as_many_cells_as_its_header(page: Path) -> None:
    """A `|` within a cell is written `\\|`, in code too; otherwise the row is cut there."""
    cells: int | None = None
    for line in text_of(page).splitlines():
        count = len(re.findall(r"(?<!\\)\|", line)) if line.startswith("|") else None
        assert cells is None or count in (None, cells), f"{page.relative_to(ROOT)}: {line}"
        cells = count


def classes_below(base: type) -> set[type]:
    """The classes that derive from `base`."""
    below = set(base.__subclasses__())
    return below.union(*map(classes_below, below))


def test_every_error_has_its_entry() -> None:
    ours = {
        e for e in classes_below(pl.errors.PellucidError) if e.__module__.startswith("pellucid")
    }
    names = {e.__name__.lower() for e in ours} | {
        n.lower() for n in dir(pl.errors) if n[0].isupper()
    }
    page = DOCS / "errors.md"
    assert not names - anchors(page)
    for error in ours:
        check(error.page, DOCS)


def test_every_page_has_its_place() -> None:
    contents = "\n".join(
        (DOCS / name).read_text() for name in ("index.md", "see/index.md", "extend/index.md")
    )
    listed = set(re.findall(r"^(?:.*<)?([\w/-]+)>?$", contents, re.MULTILINE))
    missing = [
        path
        for path in PAGES
        if path.relative_to(DOCS).with_suffix("").as_posix() not in listed
        and not (path.parent.name in ("see", "extend") and path.stem in listed)
        and path.name != "index.md"
    ]
    assert not missing


def test_every_example_has_its_picture() -> None:
    page = (DOCS / "examples.md").read_text(encoding="utf-8")
    sections = re.split(r"^## ", page, flags=re.MULTILINE)[1:]
    assert not [s.partition("\n")[0] for s in sections if "](gallery/examples/" not in s]
    shown = {
        name
        for path in PAGES
        for name in re.findall(r"gallery/examples/(\w+\.png)\)", path.read_text(encoding="utf-8"))
    }
    assert shown == {path.name for path in (DOCS / "gallery" / "examples").glob("*.png")}
