"""Cells that say which of their lines runs, by a call in front of each statement."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from IPython.core.interactiveshell import InteractiveShell

_NAME = "_pellucid_line"
"""Name of the variable that holds the marks while a cell runs."""


class Marks(Protocol):
    """A recorder of lines."""

    def __call__(self, line: int) -> None:
        """The line of this number begins."""

    def end(self) -> None:
        """No line runs any more."""


class _Marked(ast.NodeTransformer):
    """Marks statements of a cell; functions and classes, which run elsewhere and are compared by content, stay."""

    def visit(self, node: Any) -> Any:
        """`node` with a call in front of each statement in it."""
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            return node
        for name in ("body", "orelse", "finalbody"):
            statements = getattr(node, name, None)
            if isinstance(statements, list):
                setattr(node, name, [each for s in statements for each in self._marked(s)])
        for part in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
            self.visit(part)
        return node

    def _marked(self, statement: ast.stmt) -> list[ast.stmt]:
        if isinstance(statement, ast.ImportFrom) and statement.module == "__future__":
            return [statement]  # must come first
        return [_mark(statement), self.visit(statement)]


def _mark(statement: ast.stmt) -> ast.stmt:
    call = ast.Call(ast.Name(_NAME, ast.Load()), [ast.Constant(statement.lineno)], [])
    return ast.fix_missing_locations(ast.copy_location(ast.Expr(call), statement))


@contextmanager
def marked_lines(shell: InteractiveShell, marks: Marks) -> Iterator[None]:
    """Cells that run meanwhile call `marks` with the number of each line, as it begins."""
    transformer = _Marked()
    shell.ast_transformers.append(transformer)
    shell.user_ns[_NAME] = marks
    try:
        yield
    finally:
        shell.ast_transformers.remove(transformer)
        shell.user_ns.pop(_NAME, None)
        marks.end()
