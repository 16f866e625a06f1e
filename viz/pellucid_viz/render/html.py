"""HTML of a record: its static form, the record itself as inert data, and optionally the viewer.

No text of a record becomes code: records are stored as JSON in script elements that browsers don't run, and the viewer
inserts their strings as text nodes. One viewer draws all records of a page; without scripts, readers see the static
form.
"""

from __future__ import annotations

import base64
import functools
import gzip
import html
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pellucid_viz.render.colors import STYLE

VIEWER = Path(__file__).parents[1] / "static" / "viewer.js"
DEFAULT_HEIGHT = 560
"""Default height of a view in a cell output, in CSS pixels."""

_MIN_COMPRESSED_BYTES = 2_000
"""Minimum size of a record to be stored compressed, because notebooks store their outputs."""
_DATA = re.compile(
    r'<script type="application/json"( data-encoding="gzip")?>([^<]*)</script>', re.ASCII
)


def view_html(
    record: Mapping[str, Any], static: str, *, viewer: str = "", height: int = DEFAULT_HEIGHT
) -> str:
    """HTML fragment with the static form of a record and the record itself.

    `record` is the result of a record's `to_dict()`, `static` its markup, `viewer` the result of `plain_viewer` or
    `compressed_viewer`.

    >>> fragment = view_html({"kind": "program"}, "<pre>{ lambda &lt;x&gt; }</pre>")
    >>> "{ lambda &lt;x&gt; }" in fragment
    True
    >>> record_of(fragment)
    {'kind': 'program'}
    """
    return (
        f'<div class="pellucid-view">{STYLE}<div class="pellucid-static">{static}</div>'
        f'<div class="pellucid-place" style="height: {height}px" hidden></div>'
        f"{_data(record)}</div>{viewer}"
    )


def record_of(fragment: str) -> dict[str, Any]:
    """Extracts the record from a fragment made by `view_html`.

    Raises: ValueError if it contains none.
    """
    stored = _DATA.search(fragment)
    if stored is None:
        raise ValueError("there is no record in this HTML")
    text = gzip.decompress(base64.b64decode(stored[2])) if stored[1] else stored[2]
    return json.loads(text)


def view_page(record: Mapping[str, Any], static: str, *, title: str) -> str:
    """A whole HTML document with one view that fills the window."""
    fragment = view_html(record, static, viewer=plain_viewer()).replace(
        f'style="height: {DEFAULT_HEIGHT}px" hidden', 'style="height: 100vh" hidden', 1
    )
    return (
        '<!DOCTYPE html>\n<html lang="en" data-pellucid-page><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(title)}</title>"
        "<style>:root { color-scheme: light dark; } body { margin: 0; }</style></head>"
        f"<body>{fragment}</body></html>\n"
    )


def plain_viewer() -> str:
    """The viewer as a script element, which draws the records of the page; a note if it has not been built."""
    script = viewer_script()
    if script is None:
        return (
            "<p><small>The interactive view is not built: run <code>npm run build:standalone</code> "
            "in <code>lab-extension</code>.</small></p>"
        )
    return f'<script type="module">{script}</script>'


@functools.cache
def compressed_viewer() -> str:
    """The viewer as compressed data, with a script that starts it; empty if it has not been built."""
    if not VIEWER.exists():
        return ""
    return f'<script type="application/gzip" class="pellucid-viewer">{_pack(VIEWER.read_bytes())}</script>{_STARTER}'


@functools.cache
def viewer_script() -> str | None:
    """Source of the viewer, escaped for a script element; None if it has not been built."""
    if not VIEWER.exists():
        return None
    script = VIEWER.read_text(encoding="utf-8")
    # In JavaScript strings and patterns "\/" and "\!" mean "/" and "!". Unescaped, these sequences would end the script
    # element or change how HTML parses it.
    return script.replace("</script", "<\\/script").replace("<!--", "<\\!--")


_STARTER = """<script type="module">
const packed = document.querySelector('script.pellucid-viewer:not([data-started])');
if (packed !== null) {
  packed.dataset.started = '';
  const bytes = Uint8Array.from(atob(packed.text), letter => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
  const script = document.createElement('script');
  script.type = 'module';
  script.textContent = await new Response(stream).text();
  document.head.append(script);
}
</script>"""


def _pack(data: bytes) -> str:
    # A time stamp in the compressed data would make equal outputs differ.
    return base64.b64encode(gzip.compress(data, 6, mtime=0)).decode()


def _data(record: Mapping[str, Any]) -> str:
    """The record as an inert script element."""
    text = json.dumps(record, separators=(",", ":"), allow_nan=False)
    if len(text) >= _MIN_COMPRESSED_BYTES:
        return (
            f'<script type="application/json" data-encoding="gzip">{_pack(text.encode())}</script>'
        )
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return f'<script type="application/json">{text}</script>'
