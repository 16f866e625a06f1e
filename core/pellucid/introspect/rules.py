"""A table of primitives and the rules that they define."""

from __future__ import annotations

import importlib.util
import pkgutil
from typing import Any

from pellucid._machine.ir import Linearized, Primitive, registry
from pellucid._machine.primitives.families import Elementwise

RULES = ("abstract_eval", "jvp", "linearize", "transpose", "batch", "lower")

_PACKAGES = (
    "_machine.primitives",
    "_machine.higher_order",
    "_machine.refs",
    "_machine.parallel",
    "_machine.callbacks",
    "_machine.checks",
    "_machine.linalg",
    "ffi",
    "random",
    "kernels",
)
"""Packages whose modules define primitives; those that don't exist are skipped."""


def load_all_primitives() -> None:
    """Import every module that defines primitives."""
    for name in _PACKAGES:
        if importlib.util.find_spec(f"pellucid.{name}") is None:
            continue
        package = importlib.import_module(f"pellucid.{name}")
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)


def has_rule(primitive: Primitive[Any], rule: str) -> bool:
    """Whether `rule` is defined for this primitive, by its class or its row."""
    if isinstance(primitive, Elementwise) and rule in ("jvp", "transpose"):
        return (primitive.tangents if rule == "jvp" else primitive.transposes) is not None
    if rule == "linearize":
        return isinstance(primitive, Linearized) and primitive.is_linearized
    return getattr(type(primitive), rule, None) is not getattr(Primitive, rule, None)


def rule_table() -> str:
    """A table with a row per primitive and a `yes` in the column of each rule that it has."""
    load_all_primitives()
    matrix = {
        name: {rule: has_rule(primitive, rule) for rule in RULES}
        for name, primitive in sorted(registry.items())
        if type(primitive).__module__.partition(".")[0] in ("pellucid", "jax")
    }
    rules = list(next(iter(matrix.values())))
    width = max(map(len, matrix)) + 2
    lines = ["primitive".ljust(width) + "".join(rule.rjust(len(rule) + 2) for rule in rules)]
    for primitive, has in matrix.items():
        cells = ("yes" if has[rule] else "-" for rule in rules)
        marks = (cell.rjust(len(rule) + 2) for cell, rule in zip(cells, rules, strict=True))
        lines.append(primitive.ljust(width) + "".join(marks))
    return "\n".join(lines) + "\n"
