"""Full derivatives: jacfwd, jacrev, hessian."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from pellucid._machine.base import Function, Shape, copy_with_name, dtypes, strict_zip
from pellucid._machine.ir import Avals, BatchAxis, Values
from pellucid._machine.primitives import (
    broadcasted_iota,
    brought_to,
    eq,
    index_in_dim,
    instantiate,
    real,
    reshape,
    split,
)
from pellucid._machine.primitives.conversion import convert_quietly
from pellucid._machine.tracing import type_of, use_transformation
from pellucid._machine.xla import PyTreeDef, unflatten_tangents

from .arguments import (
    FlatFunction,
    check_callable,
    check_real_output,
    input_check,
    is_differentiable,
    wraps,
)
from .gradient import Argnums, ChosenArguments
from .jvp import jvp_flat
from .linearize import linearize_flat
from .vmap import batch_flat, vmap


def jacfwd(
    fun: Function, argnums: Argnums = 0, has_aux: bool = False, holomorphic: bool = False
) -> Function:
    """Returns a function that computes the Jacobian of `fun`, column by column in forward mode.

    For a result of shape R and an argument of shape A it has shape R + A. For trees it is a tree of blocks, with the
    arguments' structure nested in the results'. Efficient if there are fewer inputs than outputs.

    >>> jacfwd(lambda x: x * x)(np.arange(3.0))
    Array([[0., 0., 0.],
           [0., 2., 0.],
           [0., 0., 4.]], dtype=float32)
    """
    check_callable(fun, "jacfwd")
    chosen = ChosenArguments(argnums)
    check = input_check("jacfwd", holomorphic, allow_int=False, forward=True)

    @wraps(fun, "Jacobian")
    def jacobian_of(*args: Any, **kwargs: Any) -> Any:
        call = FlatFunction(fun, "jacfwd", has_aux, kwargs=kwargs)
        leaves, avals, tree = chosen.flat_call(call, args, check)
        n_aux = 0

        def push(*tangents: Any) -> Values:
            nonlocal n_aux
            results, out_tangents, aux = jvp_flat(call, leaves, tangents)
            n_aux = len(aux)
            return [*results, *aux, *(instantiate(t) for t in out_tangents)]

        sizes = [a.size for a in avals]
        basis = standard_basis(avals)
        axis = BatchAxis(sum(sizes))
        with use_transformation("vmap"):
            columns, dims = batch_flat(push, axis, basis, [0] * len(basis))
        n = (len(columns) - n_aux) // 2
        # Values don't depend on the direction, but those that passed through references have a batch axis.
        values = [
            x if d is None else index_in_dim(x, 0, d, keepdims=False)
            for x, d in zip(columns[: n + n_aux], dims, strict=False)
        ]
        results, aux = values[:n], values[n:]
        with use_transformation("vmap"):
            columns = [
                brought_to(axis, x, d, type_of(y).ndim)
                for x, d, y in strict_zip(columns[n + n_aux :], dims[n + n_aux :], results)
            ]
        for y in results if holomorphic else ():
            check_real_output(type_of(y), "jacfwd", holomorphic=True)
        rows = [
            [
                _as_entries(part, type_of(y), (*type_of(y).shape, *aval.shape))
                for part, aval in strict_zip(split_along(column, sizes, type_of(y).ndim), avals)
            ]
            for y, column in strict_zip(results, columns)
        ]
        return _jacobian(call, chosen, tree, rows, aux)

    return jacobian_of


def jacrev(
    fun: Function,
    argnums: Argnums = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Function:
    """Returns a function that computes the Jacobian of `fun`, row by row in reverse mode.

    Shapes and trees are as in `jacfwd`. Efficient if there are fewer outputs than inputs.

    >>> jacrev(lambda x: x * x)(np.arange(3.0))
    Array([[0., 0., 0.],
           [0., 2., 0.],
           [0., 0., 4.]], dtype=float32)
    """
    check_callable(fun, "jacrev")
    chosen = ChosenArguments(argnums)
    check = input_check("jacrev", holomorphic, allow_int)

    @wraps(fun, "Jacobian")
    def jacobian_of(*args: Any, **kwargs: Any) -> Any:
        call = FlatFunction(fun, "jacrev", has_aux, kwargs=kwargs)
        leaves, avals, tree = chosen.flat_call(call, args, check)
        nonzero = [is_differentiable(a) for a in avals]
        _, program, aux = linearize_flat(call, leaves, nonzero)
        program = program.without_dead_code()
        out_avals = program.out_avals
        for aval in out_avals:
            check_real_output(aval, "jacrev", holomorphic)

        def pull(*cotangents: Any) -> Values:
            with use_transformation("transpose"):
                return [*map(instantiate, program.pulled_back(cotangents, are_unit_vectors=True))]

        sizes = [a.size for a in out_avals]
        pulled = iter(vmap(pull)(*standard_basis(out_avals)))
        columns = [
            [
                _as_entries(part, aval, (*out.shape, *aval.shape))
                for part, out in strict_zip(split_along(next(pulled), sizes, 0), out_avals)
            ]
            if nz
            else [np.zeros((*out.shape, *aval.shape), dtypes.float0) for out in out_avals]
            for aval, nz in strict_zip(avals, nonzero)
        ]
        return _jacobian(call, chosen, tree, strict_zip(*columns), aux)

    return jacobian_of


def _jacobian(
    call: FlatFunction,
    chosen: ChosenArguments,
    tree: PyTreeDef,
    rows: Iterable[Iterable[Any]],
    aux: Values,
) -> Any:
    """The tree of blocks assembled from the rows of each result, with the auxiliary data if any."""
    blocks = [chosen.unwrap(unflatten_tangents(tree, row)) for row in rows]
    jacobian = unflatten_tangents(call.out_tree, blocks)
    return call.with_aux((jacobian,), aux) if call.has_aux else jacobian


jacobian = copy_with_name(jacrev, "jacobian")


def hessian(
    fun: Function, argnums: Argnums = 0, has_aux: bool = False, holomorphic: bool = False
) -> Function:
    """Returns a function that computes the second derivative of `fun`: forward over reverse mode.

    For a result of shape R and arguments of shapes A and B a block has shape R + A + B.

    >>> hessian(lambda x: x * x * x)(2.0)
    Array(12., dtype=float32, weak_type=True)
    """
    return jacfwd(
        jacrev(fun, argnums, has_aux=has_aux, holomorphic=holomorphic),
        argnums,
        has_aux=has_aux,
        holomorphic=holomorphic,
    )


def _as_entries(part: Any, aval: Any, shape: Shape) -> Any:
    """A part of a Jacobian with its `shape` and the dtype and weak type of `aval`; real part if `aval` is real."""
    if aval.dtype.kind != "c" and type_of(part).dtype.kind == "c":
        part = real(part)
    return reshape(convert_quietly(part, aval.dtype, aval.weak_type), shape)


def standard_basis(avals: Avals) -> Values:
    """All unit vectors for values of types `avals` together, along a new leading axis."""
    total = sum(a.size for a in avals)
    ones = eq(*(broadcasted_iota(np.int32, (total, total), i) for i in (0, 1)))
    return [
        reshape(convert_quietly(part, aval.dtype, aval.weak_type), (total, *aval.shape))
        if is_differentiable(aval)
        else np.zeros((total, *aval.shape), dtypes.float0)
        for part, aval in strict_zip(split_along(ones, [a.size for a in avals], 1), avals)
    ]


def split_along(x: Any, sizes: Sequence[int], axis: int) -> Values:
    """`x` cut along `axis` into parts of `sizes`."""
    return [x] if len(sizes) == 1 else split(x, sizes, axis)
