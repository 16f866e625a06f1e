"""How a notebook shows core objects: a table from types to figures, registered on IPython's formatters.

Core objects know nothing of it. Without this module, or in a terminal, they show as text.
"""

from __future__ import annotations

import html
from collections.abc import Callable
from typing import Any

from pellucid import introspect

PROGRAM_MIME_TYPE = "application/vnd.pellucid.program.v1+json"


def program_bundle(program: Any) -> dict[str, Any]:
    """A program in all forms that front ends show: a record, static HTML, text.

    >>> bundle = program_bundle(pl.make_jaxpr(lambda x: -x)(1.0))
    >>> sorted(bundle)
    ['application/vnd.pellucid.program.v1+json', 'text/html', 'text/plain']
    """
    text = str(program)
    return {
        PROGRAM_MIME_TYPE: introspect.program(program).to_dict(),
        "text/html": f"<pre>{html.escape(text)}</pre>",
        "text/plain": text,
    }


FIGURES: dict[tuple[str, str], Callable[[Any], dict[str, Any]]] = {
    ("pellucid.ir.jaxpr", "ClosedJaxpr"): program_bundle,
    ("pellucid.ir.jaxpr", "Jaxpr"): program_bundle,
    ("pellucid.higher_order.stages", "Traced"): lambda traced: program_bundle(traced.jaxpr),
}
"""For each type, by module and name (so that nothing is imported for it), how it is shown."""


def register(shell: Any) -> None:
    """Show core objects as figures in an IPython `shell`."""
    formatter = shell.display_formatter.mimebundle_formatter
    for (module, name), figure in FIGURES.items():
        formatter.for_type_by_name(module, name, lambda value, _figure=figure, **_: _figure(value))


def unregister(shell: Any) -> None:
    """Undo `register`."""
    formatter = shell.display_formatter.mimebundle_formatter
    for module, name in FIGURES:
        formatter.pop(f"{module}.{name}", None)
