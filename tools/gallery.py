"""Makes the pictures of `docs/gallery` from the outputs of `notebooks/gallery.ipynb`.

Runs the notebook, opens each figure in Chromium as the page that `figure.save` writes, and takes a picture of it; the
text beside a picture is the notebook's own. `python tools/gallery.py`; needs the built viewer and playwright.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, cast

import nbformat
from nbclient import NotebookClient
from playwright.sync_api import Browser, sync_playwright

from pellucid_viz.render.html import record_of, view_page

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from tests.browser.server import CHROMIUM_ARGUMENTS, chromium_path  # noqa: E402

NOTEBOOK = ROOT / "notebooks" / "gallery.ipynb"
FOLDER = ROOT / "docs" / "gallery"
SIZE = (1200, 640)
RECORD = re.compile(r"application/vnd\.pellucid\..+\+json")


class Entry(NamedTuple):
    """A figure of the notebook, with the text before it."""

    name: str
    text: str
    record: dict[str, Any]


def entries() -> Iterator[Entry]:
    """The figures that the notebook shows when it is run."""
    notebook = cast("Any", nbformat).read(NOTEBOOK, as_version=4)
    NotebookClient(notebook, timeout=120, kernel_name="pellucid").execute()
    text = ""
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            text = cell.source
            continue
        # What the kernel displays by itself, such as a note on a compilation, is no figure of the notebook.
        results = [o for o in cell.outputs if o.output_type == "execute_result"]
        for data in (result.get("data", {}) for result in results):
            if any(map(RECORD.fullmatch, data)):
                title = re.sub(r"\W+", "_", text.splitlines()[0].lstrip("# ").lower())
                yield Entry(title, text, record_of(data["text/html"]))


def picture(browser: Browser, entry: Entry, path: Path) -> None:
    """Take a picture of a figure, as high as it needs to be."""
    context = browser.new_context(viewport={"width": SIZE[0], "height": SIZE[1]})
    page = context.new_page()
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "page.html"
        source.write_text(view_page(entry.record, "", title=entry.name), encoding="utf-8")
        page.goto(source.as_uri())
        root = page.locator(".pl-root")
        root.wait_for()
        page.wait_for_timeout(600)  # layouts come from a worker
        root.screenshot(path=path)
    context.close()


def main() -> None:
    """Write the pictures and the page that shows them."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    lines = [
        "<!-- Made by tools/gallery.py from notebooks/gallery.ipynb. -->",
        "# Gallery",
        "",
        "One figure of each kind, as [a notebook](../../notebooks/gallery.ipynb) shows them.",
    ]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium_path(), args=CHROMIUM_ARGUMENTS
        )
        for entry in entries():
            picture(browser, entry, FOLDER / f"{entry.name}.png")
            title = entry.text.splitlines()[0].lstrip("# ")
            lines += ["", entry.text, "", f"![{title}]({entry.name}.png)"]
        browser.close()
    (FOLDER / "README.md").write_text("\n".join([*lines, ""]), encoding="utf-8")


if __name__ == "__main__":
    main()
