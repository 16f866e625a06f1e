"""Programs with values laid out in memory as stated; each takes the array library first.

`PROGRAMS` lists them with their arguments: `(program, arguments)`.
"""

import numpy as np

from corpus.transform_programs import submodule

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def _constrained(jax, *order):
    layout = submodule(submodule(jax, "experimental"), "layout")
    return lambda x: layout.with_layout_constraint(x, layout.Layout(order))


def values(jax, x):
    constrain = _constrained(jax, 1, 0)

    def function(x):
        return constrain(x * 2) + 1

    slope = jax.grad(lambda x: (function(x) ** 2).sum())(x)
    return jax.jit(function)(x), slope


def operations(jax, x):
    """The operation in StableHLO, without the names of values."""
    constrain = _constrained(jax, 1, 0)
    text = jax.jit(lambda x: constrain(x)).lower(x).as_text()
    [line] = [line for line in text.splitlines() if "LayoutConstraint" in line]
    return "dense<[0, 1]>" in line, line.count("layouts")


def at_once(jax, x):
    found = _constrained(jax, 1, 0)(jax.numpy.asarray(x))
    return found, found.format.layout.major_to_minor


def another_rank(jax, x):
    return jax.jit(_constrained(jax, 0))(x)


PROGRAMS = [(program, (X,)) for program in (values, operations, at_once, another_rank)]

FAILING = {another_rank}
"""Programs that are mistakes."""
