"""Makes the figures of the documentation's pages about views: each page's `figure`, as a page that works by itself.

docs/conf.py calls `write_figures` before Sphinx reads the sources, and `with_figure` for each page that it reads: on the
site the figure itself stands where the repository has a picture. A figure is made again when its page, or the sources of
the packages, have changed.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools.page_examples import examples, run  # noqa: E402  (a tool beside this one)

PACKAGES = (
    "core/pellucid",
    "kernel/pellucid_kernel",
    "viz/pellucid_viz",
    "profiler/pellucid_profiler",
)
PICTURE = re.compile(r"\n*!\[.*\]\(\.\./gallery/.*\)\n")
CELL = re.compile(r"^```python\n(?:(?!^```$).)*^>>> figure = .*?^```\n", re.MULTILINE | re.DOTALL)
FRAME = """
```{{raw}} html
<iframe class="live-figure" src="../../_static/figures/{name}.html" title="The figure of this page" loading="lazy"></iframe>
```
"""


class FigureError(Exception):
    """A page whose examples fail, or that makes no figure."""


def digest(paths: Iterable[Path]) -> str:
    """Digest of files by name and content."""
    found = hashlib.sha256()
    for path in sorted(paths):
        found.update(f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return found.hexdigest()


def sources() -> str:
    """Digest of the packages' sources, of the built viewer, and of the tools that make figures."""
    files = [path for package in PACKAGES for path in (ROOT / package).rglob("*")]
    return digest(
        path for path in [*files, *(ROOT / "tools").glob("*.py")] if path.suffix in (".py", ".js")
    )


def pages_with_figures(folder: Path) -> list[Path]:
    """The pages of a folder that make a figure."""
    return [p for p in sorted(folder.glob("*.md")) if CELL.search(p.read_text(encoding="utf-8"))]


def write_figures(pages: Path, folder: Path) -> list[Path]:
    """Write the figure of each page in `pages` into `folder`; gives the files that were written anew."""
    folder.mkdir(parents=True, exist_ok=True)
    of_sources = sources()
    written: list[Path] = []
    for page in pages_with_figures(pages):
        path, stamp = folder / f"{page.stem}.html", folder / f"{page.stem}.sha256"
        key = f"{of_sources} {digest([page])}"
        if path.exists() and stamp.exists() and stamp.read_text(encoding="utf-8") == key:
            continue
        report: list[str] = []
        test = examples(page)
        if run(test, report).failed:
            raise FigureError("".join(report))
        test.globs["figure"].save(path)
        test.globs.clear()
        stamp.write_text(key, encoding="utf-8")
        written.append(path)
    return written


def with_figure(name: str, text: str) -> str:
    """The Markdown of a page called `name` with its figure behind the cell that makes it, in place of a picture there."""
    cell = CELL.search(text)
    if cell is None:
        return text
    picture = PICTURE.match(text, cell.end())
    rest = text[cell.end() if picture is None else picture.end() :]
    return text[: cell.end()] + FRAME.format(name=name) + rest
