"""Expressions that index arrays, and a function that evaluates them with either library.

This module imports neither: the reference library's process loads it, too.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

SAME_PROGRAM = (
    "x[0]", "x[-1]", "x[1:3]", "x[::2]", "x[::-1]", "x[3:0:-2]", "x[1:1]", "x[0, 1:2]", "x[..., 0]", "x[None]",
    "x[:, None, 0]", "x[()]", "x[...]", "x[:]", "x[None, ..., None]", "x[np.int32(2)]", "x[2, 1, 0]", "x[v]",
    "x[:, v]", "x[v, :, v]", "x[v, v]", "x[v, i]", "x[v, 1:]", "x[v, ::2]", "x[v, None]", "x[None, v]",
    "x[v, None, v]", "x[v[:, None], v]", "x[0:3, v]", "x[v.astype('int8')]", "x.at[v].get(mode='fill')",
    "x.at[v].get(mode='clip')", "x.at[v].get(mode='fill', fill_value=3)", "x.at[i].get(mode='fill')",
    "x.at[v].get(indices_are_sorted=True, unique_indices=True)", "x.at[v].get(wrap_negative_indices=False)",
    "x.at[i].get(wrap_negative_indices=False)", "x.at[7].get(mode='clip')", "x.at[9].get(mode='fill')",
    "x.at[0].set(1.0)", "x.at[-1].set(1)", "x.at[1:3].set(2.0)", "x.at[::2].set(2.0)", "x.at[i].set(1.0)",
    "x.at[i].set(i)", "x.at[v].set(1.0)", "x.at[v].add(x[:2])", "x.at[v, :, v].set(1)", "x.at[0].add(1)",
    "x.at[0].subtract(1)", "x.at[0].multiply(2)", "x.at[v].divide(2)", "x.at[v].power(2.0)", "x.at[0].min(2)",
    "x.at[0].max(2)", "x.at[0].mul(2)", "x.at[None, 0].set(1)", "x.at[0].set(1.0, mode='clip')",
    "x.at[v].set(1.0, mode='promise_in_bounds', indices_are_sorted=True, unique_indices=True)", "x.at[7].set(1.0)",
    "x.at[v].set(0, wrap_negative_indices=False)", "x.at[0:2, 0].set(x[0:2, 1])", "x.at[:, ::2, 0].add(3)",
    "x.at[0:2, v].set(0)", "x.at[v, 1:].mul(2)", "x.at[i, 1:, 0].add(1)", "x.at[i, ::2].set(1)", "x.at[..., 0].set(1, mode='fill')", "(x > 0).at[0].max(True)",
)  # fmt: skip
SAME_VALUES = (
    *SAME_PROGRAM, "x.at[v].apply(lambda e: e * 2)", "x[i]", "x[i, i]", "x[-1, i]", "x[:, i]", "x[i, ::-1]", "x[i, ::2]", "x[2, :, i]", "x[0, v]",
    "x[0, :, v]", "x[v, ..., 0]", "x[v, 0, v]", "x[0, v, 0]", "x[v, ::-1]", "x[v, ::-2]", "x[True]", "x[False]",
    "x[..., True]", "x[m]", "x[m, 0]", "x[:, m[:4]]", "x[m2]", "x[m2, 0]", "x[[0, 1],]", "x[v, (0, 1)]", "x[7]",
    "x[-7]", "x[99, 1]", "x[w]", "x[w, 1:]", "x.at[w].get(mode='fill')", "x.at[w].get(mode='clip')",
    "x.at[w].set(1.0)", "x.at[w].add(1.0)", "x.at[w].set(1.0, mode='clip')", "x.at[-9].set(1.0)",
    "x.at[w].get(mode='fill', wrap_negative_indices=False)", "x.at[w].add(1.0, wrap_negative_indices=False)",
    "x.at[0].get(mode='fill')", "x.at[1:2].get(mode='fill', fill_value=3)", "x.astype(int).at[w].get(mode='fill')",
    "x.astype('uint8').at[w].get(mode='fill')", "(x > 3).at[w].get(mode='fill')", "x[np.zeros((0,), int)]", "x[np.array([1, 2], 'uint8')]",
    "x[np.array([-1, 2], 'int8')]", "x[np.array([1, 200], 'uint64')]",
    "x[np.zeros((0, 2), int), v]", "x.at[1:1].set(3.0)", "x.at[np.zeros((0,), int)].add(1.0)", "x.at[m].set(0)",
    "x.at[m].add(np.ones((3, 1, 1)))", "x.at[m, 0].set(1.0)", "x.at[True].set(2.0)", "x.at[False].set(2.0)",
    "x.at[::-1].set(x[0])", "x.at[v, ::-1].add(np.arange(12.0).reshape(4, 3))", "x.at[...].set(0)", "x.at[:].add(1)",
    "x.at[:, None].set(1.0)", "x.at[0].set([1, 2, 3])", "x.at[0].apply(lambda e: e * e)",
    "x.at[np.array([1, 1, 3])].apply(lambda e: 2 * e)", "x.astype(int).at[0].divide(2)",
    "x.astype(int).at[0].power(2)", "x[v.astype('uint8')]", "x[np.array([-2, 1], 'int8'), v]",
    "x.astype('bfloat16').at[v].add(1.5)", "x.astype('int8').at[v].multiply(3)", "x.at[np.array([1, 1])].min(-2)",
)  # fmt: skip
SAME_ERRORS = (
    "x[[0, 1]]", "x['a']", "x[1.0]", "x[0, 0, 0, 0]", "x[i:]", "x[0:i]", "x[v > 0]", "x[..., ...]", "x[::0]",
    "x[v, np.array([1, 2, 3])]", "x[m, m]", "x[m[:2]]", "x[object()]", "x[np.array([1.5])]", "x[np.array('a')]",
    "x[1.5:]", "x.at[0].set(x)", "x.at[v].set(np.ones((3, 4, 3)))", "x.at[v].get(mode='wrap')", "x[:0][v]",
    "(x > 0).at[0].add(True)", "x.at[0].set('a')", "x.at[m].set(np.ones((2, 4, 3)))",
)  # fmt: skip


OUTSIDE_PROGRAMS = (
    "x[i]", "x[-1, i]", "x[i, ::-1]", "x[0, :, v]", "x[True]", "x[..., False]", "x[m2, 0]", "x[[0, 1],]", "x[7]",
    "x[-7]", "x[w]", "x.at[w].get(mode='fill')", "x.at[w].get(mode='clip')", "x.at[w].add(1.0)", "x.at[-9].set(1.0)",
    "x.at[w].get(mode='fill', wrap_negative_indices=False)", "x.at[v].divide(2)", "x.astype(int).at[0].divide(2)",
    "x.at[m].add(np.ones((3, 1, 1)))", "x.at[v].apply(lambda e: e * 2)", "x.astype(int).at[w].get(mode='fill')",
    "x.at[v, ::-1].add(np.arange(12.0).reshape(4, 3))", "x[np.zeros((0, 2), int), v]", "x.at[1:1].set(3.0)",
)  # fmt: skip


def functions(expressions: tuple[str, ...]) -> list[Any]:
    """The expressions as functions of an array of shape (5, 4, 3), a scalar and a vector of indices."""
    m = np.array([True, False, True, True, False])
    inputs = {
        "np": np,
        "m": m,
        "m2": np.arange(20).reshape(5, 4) % 3 == 0,
        "w": np.array([-1, 5, -7, 2], np.int32),
    }
    return [eval(f"lambda x, i, v: {expression}", inputs) for expression in expressions]


OPERANDS = (
    np.arange(60, dtype=np.float32).reshape(5, 4, 3),
    np.int32(1),
    np.array([0, 2], np.int32),
)


def texts(library: Any, expressions: tuple[str, ...]) -> list[str]:
    """The text of each expression's program, in one line."""
    actual = [str(library.make_jaxpr(f)(*OPERANDS)) for f in functions(expressions)]
    return [re.sub(r"\s+", " ", text).replace("[ ", "[").replace(" ]", "]") for text in actual]


def results(library: Any, expressions: tuple[str, ...]) -> list[np.ndarray]:
    """The value of each expression, all by one compiled program."""
    every = functions(expressions)
    return [
        np.asarray(y)
        for y in library.jit(lambda *operands: [f(*operands) for f in every])(*OPERANDS)
    ]


def errors(library: Any, expressions: tuple[str, ...]) -> list[list[str] | None]:
    """For each expression the names of the classes of the error that it raises."""
    actual: list[list[str] | None] = []
    for f in functions(expressions):
        try:
            library.make_jaxpr(f)(*OPERANDS)
            actual.append(None)
        except Exception as error:
            actual.append([cls.__name__ for cls in type(error).__mro__])
    return actual
