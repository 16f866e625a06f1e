"""The law of lineage: the origins of each equation of a transformed program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import pellucid as pl
from pellucid._machine.ir.jaxpr import ClosedJaxpr, Equation
from pellucid._machine.tracing.staging import replay
from pellucid.introspect.lineage import equations_by_id, origins_of


def is_floating(aval: Any) -> bool:
    return pl.dtypes.issubdtype(aval.dtype, np.inexact)


def of_floats(closed: ClosedJaxpr) -> tuple[Callable[..., Any], list[Any]]:
    """The program as a function of its floating inputs, with floating results only, and examples of these inputs."""
    examples = [np.full(a.shape, 0.5, a.dtype) for a in closed.in_avals]
    varied = [i for i, a in enumerate(closed.in_avals) if is_floating(a)]

    def function(*xs: Any) -> list[Any]:
        values = list(examples)
        for i, x in zip(varied, xs, strict=True):
            values[i] = x
        results = replay(closed.jaxpr, closed.consts, *values)
        return [y for y, a in zip(results, closed.out_avals, strict=True) if is_floating(a)]

    return function, [examples[i] for i in varied]


def backwards(function: Callable[..., Any], xs: list[Any]) -> Any:
    results, back = pl.vjp(function, *xs)
    return back([np.ones(np.shape(y), getattr(y, "dtype", np.float32)) for y in results])


PREPARED: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    "plain": lambda f: f,
    "jit": pl.jit,
    "remat": pl.checkpoint,
}
"""Wrappers of a function before it is transformed; equations originate in its program."""

TRANSFORMATIONS: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    "jvp": lambda f: lambda *xs: pl.jvp(f, xs, xs),
    "grad": lambda f: lambda *xs: backwards(f, list(xs)),
    "vmap": lambda f: pl.vmap(f),
    "vmap of grad": lambda f: pl.vmap(lambda *xs: backwards(f, list(xs))),
}
BATCHED = {"vmap", "vmap of grad"}
"""Those transformations that take a batch."""


def transformed(closed: ClosedJaxpr, name: str) -> ClosedJaxpr:
    """The transformed program of a program of floating inputs."""
    xs = [np.full(a.shape, 0.5, a.dtype) for a in closed.in_avals]
    if name in BATCHED:
        xs = [np.stack([x, x]) for x in xs]
    function = lambda *xs: replay(closed.jaxpr, closed.consts, *xs)
    return pl.make_jaxpr(TRANSFORMATIONS[name](function))(*xs)


def unexplained(program: ClosedJaxpr, base: frozenset[int]) -> list[Equation]:
    """Equations of `program` that neither reach an equation in `base` nor say that they are plumbing.

    Rules that users define have programs of their own, which `base` doesn't list: what reaches an equation that is
    older than the transformation is explained too.
    """
    newest = max(base, default=0)
    return [
        equation
        for equation in equations_by_id(program.jaxpr).values()
        if not origins_of(equation, base)
        and any(root.lineage is None and root.id > newest for root in roots_of(equation))
    ]


def roots_of(equation: Equation) -> list[Equation]:
    """The equations at the ends of all lines of descent of `equation`."""
    waiting, roots = [equation], []
    seen = set()
    for each in waiting:  # grows meanwhile
        if each.id in seen:
            continue
        seen.add(each.id)
        if each.lineage is None or not each.lineage.origins:
            roots.append(each)
        else:
            waiting += each.lineage.origins
    return roots
