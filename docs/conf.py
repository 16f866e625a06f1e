"""The documentation site: Sphinx, with notebooks by MyST-NB (decisions/0030).

The whole repository is the source folder, so that links between its Markdown files are the links of the site.
Outputs of notebooks are kept in `build/notebooks` until a notebook or the packages' sources change;
`PELLUCID_DOCS_NOTEBOOKS=off` leaves them unexecuted.
"""

import os
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools.api_pages import write_pages  # noqa: E402
from tools.live_figures import sources, with_figure, write_figures  # noqa: E402

os.environ.setdefault("PELLUCID_NUM_CPU_DEVICES", "8")
pages = list(write_pages(ROOT / "docs" / "api"))
write_figures(ROOT / "docs" / "see", ROOT / "build" / "live" / "figures")

project = "pellucid"
author = "the pellucid developers"
extensions = ["myst_nb"]
root_doc = "docs/index"
include_patterns = [
    "README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "changes/README.md", "decisions/*.md",
    "docs/**", "notebooks/*.ipynb",
]  # fmt: skip
exclude_patterns = ["build", "docs/conf.py", "**/.ipynb_checkpoints"]

myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence"]
nb_execution_mode = "off" if os.environ.get("PELLUCID_DOCS_NOTEBOOKS") == "off" else "cache"
nb_execution_cache_path = str(ROOT / "build" / "notebooks" / sources()[:16])
nb_execution_timeout = 120  # seconds for a cell, as in the notebooks' tests
nb_execution_raise_on_error = True
nb_execution_show_tb = True
# The records of figures are for front ends with the extension; pages show their static drawings.
nb_mime_priority_overrides = [("html", "text/html", 0)]
suppress_warnings = ["mystnb.unknown_mime_type"]

html_theme = "furo"
html_title = "pellucid"
pygments_dark_style = "github-dark"  # the default underlines names of modules as if they were links
html_static_path = ["static", "../build/live"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False


def put_figure(_app: Any, name: str, source: list[str]) -> None:
    """On the site a page about a view has the figure itself where the repository has a picture."""
    folder, _, stem = name.rpartition("/")
    if folder == "docs/see":
        source[0] = with_figure(stem, source[0])


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("source-read", put_figure)
