"""Derivatives with respect to the stored elements of sparse arrays, as sparse arrays with the same rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pellucid import numpy as jnp
from pellucid._machine.base import public_functions
from pellucid._machine.base.errors import ArgumentTypeError, ArgumentValueError, UnsupportedError
from pellucid._machine.base.functional import wrapping
from pellucid._machine.base.tree import tree_flatten, tree_leaves
from pellucid._machine.transforms import gradient, jacobians
from pellucid._machine.transforms.arguments import check_callable
from pellucid.experimental.sparse.base import JAXSparse
from pellucid.experimental.sparse.bcsr import BCSR
from pellucid.experimental.sparse.coordinates import BCOO

Rebuild = Callable[[Sequence[Any]], Any]


def _is_sparse(x: Any) -> bool:
    return isinstance(x, JAXSparse)


def _function_of_data(
    name: str, fun: Callable[..., Any], argnums: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Callable[..., Any], list[Any], list[Any], Rebuild]:
    """(function of data, the data, the leaves, from derivatives by leaf to the form that `argnums` asks for).

    Leaves are those of the arguments `argnums`, where a sparse array is one.
    """
    numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    if any(not -len(args) <= i < len(args) for i in numbers):
        raise ArgumentValueError(
            f"sparse.{name}: argnums must be positions of arguments.",
            got=f"argnums: {argnums}, {len(args)} positional arguments",
        )
    numbers = tuple([i % len(args) for i in numbers])
    leaves, tree = tree_flatten([args[i] for i in numbers], is_leaf=_is_sparse)

    @wrapping(fun)
    def of_data(*data: Any) -> Any:
        arrays = [_with_data(x, d) for x, d in zip(leaves, data, strict=True)]
        every = [*args]
        for i, x in zip(numbers, tree.unflatten(arrays), strict=True):
            every[i] = x
        return fun(*every, **kwargs)

    def rebuilt(derivatives: Sequence[Any]) -> Any:
        result = tree.unflatten(derivatives)
        return result[0] if isinstance(argnums, int) else tuple(result)

    data = [x.data if _is_sparse(x) else x for x in leaves]
    return of_data, data, leaves, rebuilt


def _with_data(x: Any, data: Any) -> Any:
    if not _is_sparse(x):
        return data
    (_, *buffers), aux = x.tree_flatten()
    return type(x).tree_unflatten(aux, (data, *buffers))


def value_and_grad(
    fun: Callable[..., Any], argnums: Any = 0, has_aux: bool = False, **kwargs: Any
) -> Any:
    """`pellucid.value_and_grad` of a function that takes sparse arrays.

    The gradient by a sparse array is a sparse array with the same rows: the derivatives by its stored elements.

    >>> mat = BCOO(([2.0], [[1]]), shape=(3,))
    >>> value_and_grad(lambda x: x.todense()[1] ** 2)(mat)
    (Array(4., dtype=float32), BCOO(float32[3], nse=1))
    """
    check_callable(fun, "sparse.value_and_grad")

    @wrapping(fun)
    def value_and_gradient(*args: Any, **kwds: Any) -> Any:
        of_data, data, leaves, rebuilt = _function_of_data(
            "value_and_grad", fun, argnums, args, kwds
        )
        every = tuple(range(len(data)))
        value, slopes = gradient.value_and_grad(of_data, every, has_aux, **kwargs)(*data)
        return value, rebuilt([_with_data(x, s) for x, s in zip(leaves, slopes, strict=True)])

    return value_and_gradient


def grad(fun: Callable[..., Any], argnums: Any = 0, has_aux: bool = False, **kwargs: Any) -> Any:
    """`pellucid.grad` of a function that takes sparse arrays; the gradient is as in `value_and_grad`.

    >>> mat = BCOO(([2.0], [[1]]), shape=(3,))
    >>> grad(lambda x: x.todense()[1] ** 2)(mat).data
    Array([4.], dtype=float32)
    """
    with_value = value_and_grad(fun, argnums, has_aux, **kwargs)

    @wrapping(fun)
    def gradient_of(*args: Any, **kwds: Any) -> Any:
        value, slope = with_value(*args, **kwds)
        return (slope, value[1]) if has_aux else slope

    return gradient_of


def _derivative(x: Any, block: Any, ndim: int) -> Any:
    """The derivative by the data of `x`, whose first `ndim` dimensions are those of the result."""
    if not _is_sparse(x):
        return block
    shape = block.shape[:ndim]
    if ndim and not isinstance(x, (BCOO, BCSR)):
        raise UnsupportedError(
            f"Jacobians by {type(x).__name__} matrices are not implemented: the format has no batch dimensions.",
            do="Convert the matrix to BCOO.",
        )
    (_, *buffers), aux = x.tree_flatten()
    stretched = [jnp.broadcast_to(b, (*shape, *b.shape)) for b in buffers]
    return type(x).tree_unflatten({**aux, "shape": (*shape, *x.shape)}, (block, *stretched))


def _jacobian_of(
    name: str,
    transform: Callable[..., Any],
    fun: Callable[..., Any],
    argnums: Any,
    has_aux: bool,
    **options: Any,
) -> Any:
    check_callable(fun, f"sparse.{name}")

    @wrapping(fun)
    def jacobian_of(*args: Any, **kwds: Any) -> Any:
        of_data, data, leaves, rebuilt = _function_of_data(name, fun, argnums, args, kwds)
        trees: list[Any] = []

        def flat(*data: Any) -> Any:
            results = of_data(*data)
            results, aux = results if has_aux else (results, None)
            if any(map(_is_sparse, tree_leaves(results, is_leaf=_is_sparse))):
                raise ArgumentTypeError(
                    f"sparse.{name} needs functions with dense results.",
                    do="Give `todense()` of the result.",
                )
            outputs, tree = tree_flatten(results)
            trees.append((tree, [jnp.ndim(x) for x in outputs]))
            return outputs, aux

        every = tuple(range(len(data)))
        blocks, aux = transform(flat, every, has_aux=True, **options)(*data)
        tree, ndims = trees[0]
        jacobian = tree.unflatten([
            rebuilt([_derivative(x, b, ndim) for x, b in zip(leaves, row, strict=True)])
            for row, ndim in zip(blocks, ndims, strict=True)
        ])  # fmt: skip
        return (jacobian, aux) if has_aux else jacobian

    return jacobian_of


def jacfwd(fun: Callable[..., Any], argnums: Any = 0, has_aux: bool = False, **kwargs: Any) -> Any:
    """`pellucid.jacfwd` of a function that takes sparse arrays.

    The derivative by a BCOO or BCSR array has the same rows, and the dimensions of the result as batch dimensions.

    >>> mat = BCOO(([2.0], [[1]]), shape=(3,))
    >>> jacfwd(lambda x: x.todense())(mat)
    BCOO(float32[3, 3], nse=1, n_batch=1)
    """
    return _jacobian_of("jacfwd", jacobians.jacfwd, fun, argnums, has_aux, **kwargs)


def jacrev(fun: Callable[..., Any], argnums: Any = 0, has_aux: bool = False, **kwargs: Any) -> Any:
    """`pellucid.jacrev` of a function that takes sparse arrays; the derivative is as in `jacfwd`.

    >>> mat = BCOO(([2.0], [[1]]), shape=(3,))
    >>> jacrev(lambda x: x.todense())(mat).todense()[1]
    Array([0., 1., 0.], dtype=float32)
    """
    return _jacobian_of("jacrev", jacobians.jacrev, fun, argnums, has_aux, **kwargs)


jacobian = jacrev

__all__ = ["grad", "jacfwd", "jacobian", "jacrev", "value_and_grad"]

public_functions(__all__, globals())
