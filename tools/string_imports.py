"""Contracts of import-linter that also see imports by string: `import_module("a.b")`, and "a.b:name" as in `wiring`.

pyproject.toml names these classes under `contract_types`, where they replace import-linter's own.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
from collections.abc import Iterator
from pathlib import Path

from grimp import ImportGraph
from importlinter.contracts.acyclic_siblings import AcyclicSiblingsContract
from importlinter.contracts.forbidden import ForbiddenContract
from importlinter.contracts.layers import LayersContract
from importlinter.domain.contract import ContractCheck


def string_imports(source: str) -> Iterator[tuple[str, int]]:
    """Modules that `source` may import by strings, with the lines.

    >>> list(string_imports("import_module('a.b'), 'a.c:d', 'a.c'"))
    [('a.b', 1), ('a.c', 1)]
    """
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and node.args:
            called = getattr(node.func, "attr", getattr(node.func, "id", ""))
            text = getattr(node.args[0], "value", None) if called == "import_module" else None
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            module, colon, _ = node.value.partition(":")
            text = module if colon else None
        else:
            continue
        if isinstance(text, str):
            yield text, node.lineno


@functools.cache
def _imports_of(root: str) -> list[tuple[str, str, int]]:
    """(importer, imported, line) of all that modules of the package `root` may import by strings."""
    spec = importlib.util.find_spec(root)
    imports: list[tuple[str, str, int]] = []
    for folder in map(Path, (spec and spec.submodule_search_locations) or ()):
        for path in folder.rglob("*.py"):
            parts = [root, *path.relative_to(folder).with_suffix("").parts]
            importer = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            imports += [(importer, *each) for each in string_imports(path.read_text("utf-8"))]
    return imports


def add_string_imports(graph: ImportGraph) -> ImportGraph:
    """`graph` with the imports by string among its modules."""
    for root in {m for m in graph.modules if "." not in m and not graph.is_module_squashed(m)}:
        for importer, imported, line in _imports_of(root):
            if imported in graph.modules:
                graph.add_import(
                    importer=importer, imported=imported, line_number=line, line_contents=imported
                )
    return graph


class Layers(LayersContract):
    """`layers`, strings included."""

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        return super().check(add_string_imports(graph), verbose)


class Forbidden(ForbiddenContract):
    """`forbidden`, strings included."""

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        return super().check(add_string_imports(graph), verbose)


class AcyclicSiblings(AcyclicSiblingsContract):
    """`acyclic_siblings`, strings included."""

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        return super().check(add_string_imports(graph), verbose)
