"""The documentation site: Sphinx, with notebooks by MyST-NB (decisions/0030).

The whole repository is the source folder, so that links between its Markdown files are the links of the site.
`PELLUCID_DOCS_NOTEBOOKS=off` leaves the notebooks unexecuted.
"""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools.api_pages import write_pages  # noqa: E402

os.environ.setdefault("PELLUCID_NUM_CPU_DEVICES", "8")
pages = list(write_pages(ROOT / "docs" / "api"))

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
nb_execution_mode = "off" if os.environ.get("PELLUCID_DOCS_NOTEBOOKS") == "off" else "force"
nb_execution_timeout = 120  # seconds for a cell, as in the notebooks' tests
nb_execution_raise_on_error = True
nb_execution_show_tb = True
# The records of figures are for front ends with the extension; pages show their static drawings.
nb_mime_priority_overrides = [("html", "text/html", 0)]
suppress_warnings = ["mystnb.unknown_mime_type"]

html_theme = "furo"
html_title = "pellucid"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
