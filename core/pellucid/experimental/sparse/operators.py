"""Rules of `sparsify` for operations, and the operators of BCOO and BCSR arrays that follow from them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pellucid import lax, numpy as jnp
from pellucid._machine.base.errors import UnsupportedError
from pellucid._machine.tracing.trace import bind1
from pellucid._machine.tracing.tracer import Tracer
from pellucid.experimental.sparse.base import JAXSparse
from pellucid.experimental.sparse.bcsr import (
    BCSR,
    bcsr_broadcast_in_dim,
    bcsr_concatenate,
    bcsr_dot_general,
)
from pellucid.experimental.sparse.convolution import bcoo_conv_general_dilated
from pellucid.experimental.sparse.coordinates import BCOO, bcoo_sum_duplicates
from pellucid.experimental.sparse.creation import todense_p
from pellucid.experimental.sparse.layouts import bcoo_update_layout
from pellucid.experimental.sparse.movement import (
    bcoo_broadcast_in_dim,
    bcoo_concatenate,
    bcoo_dynamic_slice,
    bcoo_gather,
    bcoo_reduce_sum,
    bcoo_reshape,
    bcoo_rev,
    bcoo_slice,
    bcoo_squeeze,
)
from pellucid.experimental.sparse.products import (
    bcoo_dot_general,
    bcoo_multiply_sparse,
    multiply_rows,
)
from pellucid.experimental.sparse.trace import rules, sparsify


def with_data(mat: Any, data: Any) -> Any:
    """`mat` with other data at the same rows."""
    (_, *buffers), aux = mat.tree_flatten()
    result = type(mat).tree_unflatten(aux, (data, *buffers))
    if isinstance(mat, BCOO):
        result.rows = mat.rows
    return result


def _unsupported_error(what: str, *operands: Any) -> UnsupportedError:
    return UnsupportedError(
        f"sparse rule for {what} is not implemented: its result would be dense.",
        got=", ".join(repr(x) if isinstance(x, JAXSparse) else f"dense {jnp.shape(x)}" for x in operands),
        do="Convert the arrays to dense ones: `sparse.todense(x)`.",
    )  # fmt: skip


# Element by element -----------------------------------------------------------------------------------------


def _distinct(mat: Any) -> Any:
    """`mat` with one row for each place, so that a function of elements may be one of stored elements."""
    if mat.unique_indices or isinstance(mat, BCSR):
        return mat if mat.unique_indices else mat.sum_duplicates(mat.nse, remove_zeros=False)
    return bcoo_sum_duplicates(mat, nse=mat.nse)


def _zero_preserving(primitive: Any, *, is_linear: bool = False) -> None:
    def rule(operands: Sequence[Any], params: Any) -> Any:
        [x] = operands
        x = x if is_linear else _distinct(x)
        return with_data(x, bind1(primitive, x.data, params=params))

    rules[primitive] = rule


for _primitive in (lax.neg_p, lax.copy_p, lax.real_p, lax.imag_p, lax.conj_p):
    _zero_preserving(_primitive, is_linear=True)
for _primitive in (
    lax.abs_p, lax.asin_p, lax.asinh_p, lax.atan_p, lax.atanh_p, lax.bessel_i1e_p, lax.cbrt_p, lax.convert_element_type_p, lax.expm1_p,
    lax.log1p_p, lax.sign_p, lax.sin_p, lax.sinh_p, lax.sqrt_p, lax.square_p, lax.tan_p, lax.tanh_p,
):  # fmt: skip
    _zero_preserving(_primitive)


def _convert_element_type(operands: Sequence[Any], params: Any) -> Any:
    [x] = operands
    is_exact = np.can_cast(x.dtype, params.new_dtype, "safe") and x.dtype != bool
    x = x if is_exact else _distinct(x)
    return with_data(x, bind1(lax.convert_element_type_p, x.data, params=params))


def _integer_pow(operands: Sequence[Any], params: Any) -> Any:
    if params.y <= 0:
        raise _unsupported_error(f"integer_pow with exponent {params.y}", *operands)
    x = _distinct(operands[0])
    return with_data(x, bind1(lax.integer_pow_p, x.data, params=params))


def _ne(operands: Sequence[Any], params: Any) -> Any:
    """Where stored elements aren't 0; in other comparisons places that aren't stored may count."""
    x, y = operands
    x, y = (x, y) if isinstance(x, JAXSparse) else (y, x)
    if isinstance(y, (JAXSparse, Tracer)) or np.any(np.asarray(y)):
        raise _unsupported_error("ne of anything but zero", *operands)
    x = _distinct(x)
    return with_data(x, lax.ne(x.data, jnp.zeros_like(x.data)))


def _have_same_rows(x: Any, y: Any) -> bool:
    return isinstance(x, BCOO) and isinstance(y, BCOO) and x.rows is not None and x.rows is y.rows


def _add(operands: Sequence[Any], params: Any) -> Any:
    x, y = operands
    if isinstance(x, BCSR) or isinstance(y, BCSR):
        raise _unsupported_error("add of BCSR arrays", x, y)
    if not isinstance(x, BCOO) or not isinstance(y, BCOO):
        mat, dense = (x, y) if isinstance(x, BCOO) else (y, x)
        if jnp.shape(dense) != mat.shape:
            raise _unsupported_error("add of a sparse array and a dense one of another shape", x, y)
        return lax.add(mat.todense(), dense)
    if _have_same_rows(x, y):
        return with_data(x, lax.add(x.data, y.data))
    if (x.n_batch, x.n_dense) != (y.n_batch, y.n_dense):
        raise UnsupportedError(
            "the sum of sparse arrays with different batch or dense dimensions is not implemented.",
            got=f"{x!r}, {y!r}",
            do="Use `update_layout` before.",
        )
    batch = x.shape[: x.n_batch]
    axis = x.n_batch
    data, indices = (
        jnp.concatenate([jnp.broadcast_to(b, (*batch, *b.shape[axis:])) for b in pair], axis)
        for pair in ((x.data, y.data), (x.indices, y.indices))
    )
    return BCOO((data, indices), shape=x.shape)


def _sub(operands: Sequence[Any], params: Any) -> Any:
    x, y = operands
    if not isinstance(x, BCOO) or not isinstance(y, BCOO):
        raise _unsupported_error("sub of sparse and dense arrays", x, y)
    return _add((x, with_data(y, lax.neg(y.data))), params)


def _mul(operands: Sequence[Any], params: Any) -> Any:
    x, y = operands
    if isinstance(x, BCSR) or isinstance(y, BCSR):
        raise _unsupported_error("mul of BCSR arrays", x, y)
    if not isinstance(x, BCOO) or not isinstance(y, BCOO):
        mat, dense = (x, y) if isinstance(x, BCOO) else (y, x)
        return with_data(mat, multiply_rows(mat, dense, lax.mul, 0))
    if _have_same_rows(x, y) and x.unique_indices:
        return with_data(x, lax.mul(x.data, y.data))
    return bcoo_multiply_sparse(x, y)


def _div(operands: Sequence[Any], params: Any) -> Any:
    x, y = operands
    if not isinstance(x, BCOO) or isinstance(y, JAXSparse):
        raise _unsupported_error("div by a sparse array", x, y)
    x = x if np.issubdtype(x.dtype, np.inexact) else _distinct(x)
    return with_data(x, multiply_rows(x, y, lax.div, 1))


rules.update({
    lax.convert_element_type_p: _convert_element_type, lax.ne_p: _ne, lax.integer_pow_p: _integer_pow, lax.add_p: _add, lax.sub_p: _sub,
    lax.mul_p: _mul, lax.div_p: _div,
})  # fmt: skip


# Shapes and products ----------------------------------------------------------------------------------------


def _of_bcoo(rule: Callable[..., Any]) -> Callable[..., Any]:
    """A rule for BCOO arrays alone, of operands and the params."""

    @functools.wraps(rule)
    def check_format(operands: Sequence[Any], params: Any) -> Any:
        if any(isinstance(x, BCSR) for x in operands):
            raise UnsupportedError(
                f"sparse rule for {rule.__name__.strip('_')} of BCSR arrays is not implemented.",
                got=", ".join(repr(x) for x in operands if isinstance(x, JAXSparse)),
                do="Use `to_bcoo`.",
            )
        return rule(operands, params)

    return check_format


def _reduce_sum(operands: Sequence[Any], params: Any) -> Any:
    result = bcoo_reduce_sum(operands[0], axes=params.axes)
    return result if result.shape else result.todense()


def _transpose(operands: Sequence[Any], params: Any) -> Any:
    return operands[0].transpose(params.permutation)


def _reshape(operands: Sequence[Any], params: Any) -> Any:
    return bcoo_reshape(operands[0], new_sizes=params.new_sizes, dimensions=params.dimensions)


def _squeeze(operands: Sequence[Any], params: Any) -> Any:
    return bcoo_squeeze(operands[0], dimensions=params.dimensions)


def _slice(operands: Sequence[Any], params: Any) -> Any:
    return bcoo_slice(operands[0], **params._asdict())


def _dynamic_slice(operands: Sequence[Any], params: Any) -> Any:
    mat, *starts = operands
    return bcoo_dynamic_slice(mat, starts, params.slice_sizes)


def _gather(operands: Sequence[Any], params: Any) -> Any:
    mat, indices = operands
    return bcoo_gather(mat, indices, **params._asdict())


def _rev(operands: Sequence[Any], params: Any) -> Any:
    return bcoo_rev(operands[0], params.dimensions)


def _broadcast_in_dim(operands: Sequence[Any], params: Any) -> Any:
    [mat] = operands
    if isinstance(mat, BCSR):
        return bcsr_broadcast_in_dim(mat, **params._asdict())
    return bcoo_broadcast_in_dim(mat, **params._asdict())


def _concatenate(operands: Sequence[Any], params: Any) -> Any:
    if any(isinstance(x, BCSR) for x in operands):
        return bcsr_concatenate(operands, dimension=params.dimension)
    return bcoo_concatenate(operands, dimension=params.dimension)


def _stack(operands: Sequence[Any], params: Any) -> Any:
    shape = [*operands[0].shape]
    shape.insert(params.axis, 1)
    places = [d for d in range(len(shape)) if d != params.axis]
    rows = [bcoo_broadcast_in_dim(x, shape=shape, broadcast_dimensions=places) for x in operands]
    return bcoo_concatenate(rows, dimension=params.axis)


def _dot_general(operands: Sequence[Any], params: Any) -> Any:
    product = bcsr_dot_general if any(isinstance(x, BCSR) for x in operands) else bcoo_dot_general
    return product(
        *operands, dimension_numbers=params.dimension_numbers, precision=params.precision,
        preferred_element_type=params.preferred_element_type, out_sharding=params.out_sharding,
    )  # fmt: skip


def _convolution(operands: Sequence[Any], params: Any) -> Any:
    return bcoo_conv_general_dilated(*operands, **params._asdict())


def _todense(operands: Sequence[Any], params: Any) -> Any:
    return operands[0].todense()


rules.update({
    lax.broadcast_in_dim_p: _broadcast_in_dim, lax.concatenate_p: _concatenate, lax.dot_general_p: _dot_general,
    todense_p: _todense, lax.conv_general_dilated_p: _of_bcoo(_convolution),
    lax.stack_p: _of_bcoo(_stack), lax.reduce_sum_p: _of_bcoo(_reduce_sum), lax.transpose_p: _of_bcoo(_transpose), lax.reshape_p: _of_bcoo(_reshape),
    lax.squeeze_p: _of_bcoo(_squeeze), lax.slice_p: _of_bcoo(_slice), lax.dynamic_slice_p: _of_bcoo(_dynamic_slice),
    lax.gather_p: _of_bcoo(_gather), lax.rev_p: _of_bcoo(_rev),
})  # fmt: skip


# Operators --------------------------------------------------------------------------------------------------


def _swap_operands(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, y: function(y, x)


def _item(mat: Any, idx: Any, **options: Any) -> Any:
    """The elements `mat[idx]`, with the indices of `numpy`: ints, slices, integer arrays and new axes."""
    return sparsify(lambda x: x.at[idx].get(**options) if options else x[idx])(mat)


def _items(mat: Any) -> Any:
    """The slices along the first dimension."""
    return (mat[i] for i in range(mat.shape[0]))


def _method(name: str) -> Callable[..., Any]:
    def method(mat: Any, *args: Any, **kwargs: Any) -> Any:
        return sparsify(lambda x: getattr(x, name)(*args, **kwargs))(mat)

    method.__doc__ = f"`{name}` of arrays, as `sparsify` applies it."
    return method


_binary = {
    "add": jnp.add, "sub": jnp.subtract, "mul": jnp.multiply, "truediv": jnp.divide, "pow": jnp.power,
    "matmul": jnp.matmul,
}  # fmt: skip
_OPERATORS: dict[str, Callable[..., Any]] = {
    "__abs__": sparsify(jnp.abs), "__neg__": sparsify(jnp.negative), "__pos__": sparsify(jnp.positive),
    "__eq__": sparsify(jnp.equal), "__ne__": sparsify(jnp.not_equal), "__lt__": sparsify(jnp.less),
    "__le__": sparsify(jnp.less_equal), "__gt__": sparsify(jnp.greater), "__ge__": sparsify(jnp.greater_equal),
    "__getitem__": _item, "__iter__": _items, "sum": _method("sum"), "reshape": _method("reshape"),
    "astype": _method("astype"), "update_layout": bcoo_update_layout,
}  # fmt: skip
for _name, _function in _binary.items():
    _OPERATORS[f"__{_name}__"] = sparsify(_function)
    _OPERATORS[f"__r{_name}__"] = sparsify(_swap_operands(_function))

for _name, _function in _OPERATORS.items():
    setattr(BCOO, _name, _function)
for _name in ("__matmul__", "__rmatmul__", "__getitem__", "__iter__"):
    setattr(BCSR, _name, _OPERATORS[_name])
