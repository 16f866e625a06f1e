"""Writes the API pages of the documentation: one Markdown file for each public module, from its docstrings.

Docstrings are Markdown with doctests, so pages are, too: a `py:function` or `py:class` directive for each name, with
its signature, its text and its examples. docs/conf.py calls `write_pages` before Sphinx reads the sources.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools.missing_api import owner_of, reference_names  # noqa: E402  (a tool beside this one)
from tools.public_api import names_of, signature_text  # noqa: E402

MORE_MODULES = ("pellucid.analysis", "pellucid.introspect", "pellucid_viz")
"""Public modules that the reference doesn't have."""

SHOWN_AS = {"pellucid_profiler": "pellucid.profiler", "pellucid_viz": "pellucid.viz"}
"""Names that users import, of modules that have another one."""


def public_modules() -> list[types.ModuleType]:
    """The modules that get a page: those with public names."""
    owners = [owner_of(name) for name in reference_names()]
    modules = [owner for owner in owners if isinstance(owner, types.ModuleType)]
    modules += [importlib.import_module(name) for name in MORE_MODULES]
    return [module for module in modules if members(module)]


def members(module: types.ModuleType) -> dict[str, Any]:
    """Public names of `module` in the order of the alphabet, with what they name; no modules."""
    values = {name: getattr(module, name) for name in sorted(names_of(module) or ())}
    return {name: x for name, x in values.items() if not isinstance(x, types.ModuleType)}


def is_documented(value: object) -> bool:
    """Whether `value` is a function or class whose docstring is its own, and written here."""
    is_ours = str(getattr(value, "__module__", "")).partition(".")[0].startswith("pellucid")
    return callable(value) and is_ours and bool(inspect.getdoc(value))


def fenced_examples(text: str) -> str:
    """A docstring whose doctests stand in code blocks; a doctest ends with its paragraph."""
    return re.sub(
        r"^>>>.*?(?=\n\s*\n|\Z)", r"\n```pycon\n\g<0>\n```", text, flags=re.MULTILINE | re.DOTALL
    )


def entry(module: str, name: str, value: object) -> str:
    """The directive that documents one function or class."""
    kind = "class" if isinstance(value, type) else "function"
    text = fenced_examples(inspect.getdoc(value) or "")
    return f"::::{{py:{kind}}} {module}.{name}{signature_text(value)}\n\n{text}\n::::\n"


def page(module: types.ModuleType) -> str:
    """The Markdown of a module's page."""
    title = SHOWN_AS.get(module.__name__, module.__name__)
    about = (inspect.getdoc(module) or "").partition("\n\n")[0]
    parts = [f"# {title}\n", f"{about}\n", f":::{{py:module}} {title}\n:::\n"]
    others: list[str] = []
    first_names: dict[int, str] = {}
    for name, value in members(module).items():
        if not is_documented(value):
            others.append(f"`{name}`")
        elif (first := first_names.setdefault(id(value), name)) != name:
            parts.append(f"::::{{py:data}} {title}.{name}\n\nAnother name of `{first}`.\n::::\n")
        else:
            parts.append(entry(title, name, value))
    if others:
        parts.append(f"Constants, types and primitives: {', '.join(others)}.\n")
    return "\n".join(parts)


def write_pages(folder: Path) -> Iterator[Path]:
    """Write the page of each public module and a list of them into `folder`; gives their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    modules = public_modules()
    pages = {SHOWN_AS.get(m.__name__, m.__name__): page(m) for m in modules}
    listed = "\n".join(sorted(pages))
    pages["index"] = (
        f"# API\n\nEvery example of these pages is a test.\n\n```{{toctree}}\n:maxdepth: 1\n\n{listed}\n```\n"
    )
    for stale in {path for path in folder.glob("*.md") if path.stem not in pages}:
        stale.unlink()
    for name, text in pages.items():
        path = folder / f"{name}.md"
        if (
            not path.exists() or path.read_text(encoding="utf-8") != text
        ):  # Sphinx reads what changed
            path.write_text(text, encoding="utf-8")
        yield path
