"""A value has a user's name only if the user's function bound it to that name."""

from __future__ import annotations

import sys
from typing import Any, Self

import numpy as np
import pytest
from corpus import models

import pellucid as pl
from pellucid.introspect.bodies import programs_within
from pellucid.introspect.program import argument_names, value_names
from pellucid.tracing.staging import StagingTracer
from pellucid.tree_util import tree_leaves


class Bindings:
    """While it is entered: the variables of a program that local names of functions in `file` hold."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.names: dict[Any, set[str]] = {}
        self.functions: set[str] = set()
        """Qualified names of the functions that ran."""

    def __enter__(self) -> Self:
        self._outer = sys.gettrace()
        sys.settrace(self._called)
        return self

    def __exit__(self, *exception: object) -> None:
        sys.settrace(self._outer)

    def _called(self, frame, event, argument):
        return self._at if frame.f_code.co_filename == self.file else None

    def _at(self, frame, event, argument):
        self.functions.add(frame.f_code.co_qualname)
        for name, value in frame.f_locals.items():
            for leaf in tree_leaves(value, is_leaf=lambda x: hasattr(x, "aval")):
                while type(leaf) is not StagingTracer and hasattr(leaf, "_trace"):
                    leaf = getattr(leaf, "primal", getattr(leaf, "value", None))
                if type(leaf) is StagingTracer:
                    self.names.setdefault(leaf.variable, set()).add(name)
        return self._at


@pytest.mark.parametrize(
    ("program", "arguments"), models.PROGRAMS, ids=lambda x: getattr(x, "__name__", "")
)
def test_names_are_those_that_the_users_function_binds(program, arguments) -> None:
    with Bindings(program.__code__.co_filename) as bindings:
        traced = pl.make_jaxpr(lambda *xs: program(pl, *xs))(*arguments)
    violations = []
    for jaxpr in programs_within(traced.jaxpr):
        staged = {v for e in jaxpr.equations if e.lineage is None for v in e.results}
        for variable, name in value_names(jaxpr).items():
            if variable not in staged or variable in argument_names(jaxpr):
                continue
            if name.function not in bindings.functions:
                continue  # another test traced it, and its program was taken
            if name.name not in bindings.names.get(variable, ()):
                violations.append((name, variable.aval.text(), bindings.names.get(variable)))
    assert violations == []


def test_derivatives_take_no_name_of_the_line_that_they_are_of() -> None:
    def layer(w, x):
        y = pl.numpy.tanh(x @ w)
        return y + x

    def step(w, x):
        loss, grads = pl.value_and_grad(lambda w: (layer(w, x) ** 2).mean())(w)
        updated = w - 0.1 * grads
        return loss, updated

    jaxpr = pl.make_jaxpr(step)(np.ones((3, 3)), np.ones((2, 3))).jaxpr
    names = value_names(jaxpr)
    primitives = {
        names[v].name: e.primitive.name for e in jaxpr.equations for v in e.results if v in names
    }
    assert primitives == {"y": "tanh", "updated": "sub"}
