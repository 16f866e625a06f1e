"""Colours of static HTML, the same as in the live view (light and dark), as CSS variables."""

from __future__ import annotations

from collections.abc import Mapping

LIGHT = {
    "surface": "#ffffff",
    "line": "#d5dce4",
    "line-strong": "#aab5c1",
    "edge": "#a3afbd",
    "accent": "#2563eb",
    "amber-soft": "#fef0d8",
    "added-soft": "#e0f5e6",
    "removed-soft": "#fde5e6",
    "contraction": "#3566d6",
    "elementwise": "#5f7286",
    "reduction": "#cf6a16",
    "movement": "#a3adb8",
    "indexing": "#8250df",
    "control": "#168a67",
    "collective": "#d1316b",
    "random": "#b58900",
    "creation": "#5b9bb5",
    "host": "#b3261e",
}
DARK = {
    "surface": "#2a2f36",
    "line": "#3b434d",
    "line-strong": "#56616e",
    "edge": "#5f6b79",
    "accent": "#6ea0ff",
    "amber-soft": "#43311a",
    "added-soft": "#1b3626",
    "removed-soft": "#432326",
    "contraction": "#7ba4ff",
    "elementwise": "#95a5b8",
    "reduction": "#f0985a",
    "movement": "#727d89",
    "indexing": "#b794ff",
    "control": "#4cc79d",
    "collective": "#ff7fa8",
    "random": "#e0bb48",
    "creation": "#83bcd3",
    "host": "#ff8a80",
}
"""Colours of `lab-extension/src/components/theme.ts`, by name; a test compares them."""


def _declarations(tokens: Mapping[str, str]) -> str:
    return "".join(f"--pl-{name}:{value};" for name, value in tokens.items())


# Pages of Jupyter and Sphinx have their theme in attributes of the body; our own pages follow the system's.
STYLE = f"""<style>
.pellucid-view{{{_declarations(LIGHT)}}}
[data-jp-theme-light="false"] .pellucid-view,[data-theme="dark"] .pellucid-view{{{_declarations(DARK)}}}
@media (prefers-color-scheme: dark){{[data-pellucid-page] .pellucid-view{{{_declarations(DARK)}}}}}
.pellucid-static{{overflow-x:auto;font-size:13px}}
.pellucid-static table{{font-size:inherit}}.pellucid-static td{{max-width:420px}}
.pellucid-static pre{{font:12px/1.5 ui-monospace,Menlo,Consolas,monospace;white-space:pre;overflow-x:auto;margin:2px 0}}
.pellucid-static summary{{cursor:pointer}}
.pellucid-static details>:not(summary){{margin-left:16px}}
.pellucid-static td,.pellucid-static th{{text-align:left!important;padding:2px 10px 2px 0;vertical-align:top}}
.pellucid-static code{{background:none!important;overflow-wrap:anywhere}}
.pellucid-static i{{font-style:normal;font-weight:600}}
.pellucid-static small{{opacity:.75}}
.pl-amber{{background:var(--pl-amber-soft)!important}}.pl-added{{background:var(--pl-added-soft)}}
.pl-removed{{background:var(--pl-removed-soft)}}p.pl-removed{{white-space:pre-line}}
.pl-level{{max-width:100%;height:auto;font:12px ui-monospace,Menlo,Consolas,monospace}}
.pl-level text{{text-anchor:middle;fill:currentColor}}.pl-level .pl-title{{font-weight:600}}
.pl-level .pl-subtitle{{font-size:10.5px;opacity:.75}}
.pl-box,.pl-pill{{fill:var(--pl-surface);stroke:var(--pl-line-strong)}}
.pl-edge{{fill:none;stroke:var(--pl-edge)}}
</style>"""
