"""A view as HTML that needs nothing else: no extension, no kernel, no network.

The page shows the text form until its script runs, so the text is also what a reader sees who
allows no scripts. Nothing of a record becomes markup or code: it travels as JSON in an inert script
element, and the viewer puts all its texts into the page as texts.
"""

from __future__ import annotations

import base64
import functools
import gzip
import html
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

VIEWER = Path(__file__).parents[1] / "static" / "viewer.js"
DEFAULT_HEIGHT = 560
"""Height of a view in a cell output, in CSS pixels."""

_COMPRESSED_FROM_BYTES = 64_000
"""A record from this size on is stored compressed: notebooks keep their outputs."""


def view_html(record: Mapping[str, Any], text: str, *, height: int = DEFAULT_HEIGHT) -> str:
    """HTML fragment that shows `record`, with `text` where scripts do not run.

    `record` is what `to_dict()` of a record gives. The viewer is part of the fragment; where it has
    not been built (a source checkout without the front end), the fragment shows the text.

    >>> fragment = view_html({"kind": "program"}, "{ lambda <x> }")
    >>> "{ lambda &lt;x&gt; }" in fragment
    True
    """
    script = viewer_script()
    pre = f'<pre style="overflow: auto; max-height: {height}px">{html.escape(text)}</pre>'
    if script is None:
        return (
            f'<div class="pellucid-view">{pre}<p><small>The interactive view is not built: run '
            "<code>npm run build:standalone</code> in <code>lab-extension</code>.</small></p></div>"
        )
    return (
        f'<div class="pellucid-view">{pre}'
        f'<div class="pellucid-place" style="height: {height}px" hidden></div>'
        f"{_data(record)}"
        f'<script type="module">{script}</script>'
        "</div>"
    )


def view_page(record: Mapping[str, Any], text: str, *, title: str) -> str:
    """Whole HTML document with one view that fills the window."""
    fragment = view_html(record, text).replace(
        f'style="height: {DEFAULT_HEIGHT}px" hidden', 'style="height: 100vh" hidden', 1
    )
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(title)}</title>"
        "<style>:root { color-scheme: light dark; } body { margin: 0; }</style></head>"
        f"<body>{fragment}</body></html>\n"
    )


@functools.cache
def viewer_script() -> str | None:
    """Script of the viewer, safe inside a script element; None where it has not been built."""
    if not VIEWER.exists():
        return None
    script = VIEWER.read_text(encoding="utf-8")
    # In JavaScript texts and patterns "\/" and "\!" mean "/" and "!"; in HTML the originals would
    # end the script element or change how it is read.
    return script.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _data(record: Mapping[str, Any]) -> str:
    """The record as an inert script element."""
    text = json.dumps(record, separators=(",", ":"), allow_nan=False)
    if len(text) < _COMPRESSED_FROM_BYTES:
        for sign in "<>&\u2028\u2029":
            text = text.replace(sign, f"\\u{ord(sign):04x}")
        return f'<script type="application/json">{text}</script>'
    # A time stamp in the compressed data would make equal outputs differ.
    packed = base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()
    return f'<script type="application/json" data-encoding="gzip">{packed}</script>'
