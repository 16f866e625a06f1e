"""What calls of `numpy_calls` give: their types, and their values eagerly, under jit and under vmap.

The same functions run with either library, which is their first argument.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from corpus.numpy_calls import Row

CHUNK = 40
"""Rows evaluated by one compiled program: many small compilations are slow."""
QUICK_COMPILATION = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}


class Failure(NamedTuple):
    """An exception: the names of the built-in classes above it, the nearest first, and its text."""

    builtins: tuple[str, ...]
    text: str


class Value(NamedTuple):
    """A leaf of a result: an array, or the text of what is none."""

    dtype: str
    weak_type: bool
    array: np.ndarray | None
    text: str = ""


class Results(NamedTuple):
    """What a row gives in each mode: the leaves of its result, arrays first, or a failure."""

    eager: list[Value] | Failure
    jit: list[Value] | Failure
    vmap: list[Value] | Failure


class Answers(NamedTuple):
    """Results of the reference for a row: `eager` is evaluated where `jit` fails, else the same."""

    eager: list[Value] | Failure
    jit: list[Value] | Failure


def types(jax: Any, rows: Sequence[Row], weak: bool = False) -> list[list[str] | Failure]:
    """For each row the types of its results, or the failure to trace it; nothing is compiled.

    With `weak`, operands of default dtypes are weakly typed.
    """
    return _with_options(jax, rows, lambda some: [_types_of(jax, row, weak) for row in some])


def results(jax: Any, rows: Sequence[Row]) -> list[Results]:
    """For each row what it gives in each mode."""

    def of_some(some: list[Row]) -> list[Results]:
        eager = [_eagerly(jax, row) for row in some]
        modes = eager, _together(jax, some, batch=False), _together(jax, some, batch=True)
        return [Results(*of_row) for of_row in zip(*modes, strict=True)]

    return _with_options(jax, rows, of_some)


def answers(jax: Any, rows: Sequence[Row]) -> list[Answers]:
    """Results of the reference for each row."""

    def of_some(some: list[Row]) -> list[Answers]:
        return [
            Answers(_eagerly(jax, row) if isinstance(traced, Failure) else traced, traced)
            for row, traced in zip(some, _together(jax, some, batch=False), strict=True)
        ]

    return _with_options(jax, rows, of_some)


def _with_options(jax: Any, rows: Sequence[Row], evaluate: Callable[[list[Row]], list[Any]]) -> Any:
    """What `evaluate` gives for the rows, each under its own setting of 64-bit dtypes."""
    found: dict[int, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of complex numbers made real, and the like
        for wide in (False, True):
            chosen = [i for i, row in enumerate(rows) if row.x64 is wide]
            with jax.enable_x64(wide):
                found |= dict(zip(chosen, evaluate([rows[i] for i in chosen]), strict=True))
    return [found[i] for i in range(len(rows))]


def _types_of(jax: Any, row: Row, weak: bool) -> list[str] | Failure:
    flat, others = _flat(jax, row.function(jax))
    defaults = {jax.dtypes.canonicalize_dtype(d) for d in (np.int64, np.float64, np.complex128)}
    try:
        arrays = jax.eval_shape(flat, *[
            jax.ShapeDtypeStruct(x.shape, x.dtype, weak_type=weak and x.dtype in defaults)
            for x in row.operands
        ])  # fmt: skip
    except Exception as error:  # the row's own, whatever it is
        return _failure(error)
    return [_type(x) for x in arrays] + [f"{x}" for x in others]


def _type(x: Any) -> str:
    weak = x.weak_type and x.dtype != np.bool_  # promotion doesn't look at the weakness of bools
    return f"{x.dtype}{' (weak)' if weak else ''}{list(x.shape)}"


def _flat(jax: Any, function: Callable[..., Any]) -> tuple[Callable[..., list[Any]], list[Any]]:
    """`function` giving the arrays among its leaves, and a list that each call fills with the other leaves."""
    others: list[Any] = []

    def flat(*operands: Any) -> list[Any]:
        leaves = jax.tree.leaves(function(*operands))
        others[:] = [leaf for leaf in leaves if not isinstance(leaf, jax.Array)]
        return [leaf for leaf in leaves if isinstance(leaf, jax.Array)]

    return flat, others


def _eagerly(jax: Any, row: Row) -> list[Value] | Failure:
    flat, others = _flat(jax, row.function(jax))
    try:
        arrays = flat(*(jax.numpy.asarray(x) for x in row.operands))
        return _values(arrays, others)
    except Exception as error:  # the row's own, whatever it is
        return _failure(error)


def _together(jax: Any, rows: list[Row], *, batch: bool) -> list[Any]:
    """What each row gives, computed by a program for each `CHUNK` of rows that can be traced."""
    found: dict[int, Any] = {}
    programs: dict[int, tuple[Any, list[Any], list[Any]]] = {}
    for i, row in enumerate(rows):
        function, operands = row.function(jax), [np.asarray(x) for x in row.operands]
        if batch and operands:
            function = jax.vmap(function)
            operands = [np.stack([np.flip(x), x]) for x in operands]
        flat, others = _flat(jax, function)
        arguments = [jax.numpy.asarray(x) for x in operands]
        try:
            jax.eval_shape(flat, *arguments)
            programs[i] = flat, arguments, list(others)
        except Exception as error:  # the row's own, whatever it is
            found[i] = _failure(error)
    keys = list(programs)
    for start in range(0, len(keys), CHUNK):
        chunk = {i: programs[i] for i in keys[start : start + CHUNK]}
        for i, arrays in _run(jax, chunk).items():
            if isinstance(arrays, Failure):
                found[i] = arrays
            else:
                at = 1 if batch and rows[i].operands else ()
                found[i] = _values(arrays, programs[i][2], at)
    return [found[i] for i in range(len(rows))]


def _run(jax: Any, programs: dict[int, Any]) -> dict[int, Any]:
    """The arrays of several programs, computed by one; one by one if that fails."""

    def every(groups: list[list[Any]]) -> list[Any]:
        return [flat(*xs) for (flat, *_), xs in zip(programs.values(), groups, strict=True)]

    jitted = jax.jit(every, compiler_options=QUICK_COMPILATION)
    try:
        arrays = jitted([arguments for _, arguments, _ in programs.values()])
        return dict(zip(programs, arrays, strict=True))
    except Exception as error:  # some row's own, whatever it is
        if len(programs) == 1:
            return dict.fromkeys(programs, _failure(error))
    return {i: x for one in programs for i, x in _run(jax, {one: programs[one]}).items()}


def _values(arrays: Sequence[Any], others: Sequence[Any], at: Any = ()) -> list[Value]:
    hosts = [np.asarray(x)[at] for x in arrays]
    return [
        *(Value(str(h.dtype), bool(x.weak_type), h) for x, h in zip(arrays, hosts, strict=True)),
        *(Value("", False, None, f"{x}") for x in others),
    ]


def _failure(error: Exception) -> Failure:
    builtins = [cls.__name__ for cls in type(error).__mro__ if cls.__module__ == "builtins"]
    return Failure(tuple(builtins), f"{type(error).__name__}: {str(error)[:300]}")
