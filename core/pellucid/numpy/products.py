"""Products of arrays: dot, matmul and their relatives, and einsum."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
import opt_einsum

from pellucid.base import dtypes
from pellucid.base.errors import ArgumentValueError, ShapeError
from pellucid.numpy.compiled import numpy_function
from pellucid.numpy.manipulation import canonical_axes
from pellucid.numpy.promotion import aval_of, convert, promote_dtypes
from pellucid.primitives import (
    arithmetic,
    broadcasting,
    complex_parts,
    contraction,
    logical,
    movement,
)
from pellucid.primitives.movement import canonical_axis
from pellucid.tracing.values import type_of


def _hashable(precision: Any) -> Any:
    return tuple(precision) if isinstance(precision, list) else precision


def _preferred(dtype: Any, name: str) -> Any:
    return (
        None
        if dtype is None
        else dtypes.canonicalize(np.dtype(dtypes.check_user_dtype(dtype, name)))
    )


def _ndim(x: Any) -> int:
    return type_of(x).ndim


def _operands(name: str, a: Any, b: Any, preferred: Any) -> tuple[Any, Any, Any, bool]:
    """Operands of one dtype, the dtype to compute the product in, and whether the result is weakly typed."""
    first, second = aval_of(name, a), aval_of(name, b, 1)
    if preferred is None:
        dtype, weak = dtypes.promote(
            ((first.dtype, first.weak_type), (second.dtype, second.weak_type))
        )
    else:
        dtype, weak = preferred, False
    a, b = promote_dtypes(name, a, b)
    return a, b, dtype, weak


def _product(a: Any, b: Any, dims: Any, precision: Any, dtype: Any, weak: bool) -> Any:
    result = contraction.dot_general(a, b, dims, precision, dtype)
    return convert(result, type_of(result), dtype, weak)


# dot and matmul -----------------------------------------------------------------------------------------


@numpy_function(static=("precision", "preferred"))
def _dot(a: Any, b: Any, precision: Any, preferred: Any) -> Any:
    a, b, dtype, weak = _operands("dot", a, b, preferred)
    if _ndim(a) == 0 or _ndim(b) == 0:
        dims: Any = (((), ()), ((), ()))
    elif _ndim(b) == 1:
        dims = (((_ndim(a) - 1,), (0,)), ((), ()))
    else:
        dims = (((_ndim(a) - 1,), (_ndim(b) - 2,)), ((), ()))
    _check_contracted("dot", a, b, dims)
    return _product(a, b, dims, precision, dtype, weak)


def dot(
    a: Any,
    b: Any,
    *,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Any:
    """Sum of products over the last axis of `a` and the second-to-last (or only) axis of `b`.

    >>> dot(np.arange(3), np.arange(3))
    Array(5, dtype=int32)
    """
    return _dot(a, b, _hashable(precision), _preferred(preferred_element_type, "dot"))


def _check_contracted(name: str, a: Any, b: Any, dims: Any) -> None:
    ((left, right), _) = dims
    shape_a, shape_b = type_of(a).shape, type_of(b).shape
    for i, j in zip(left, right, strict=True):
        if shape_a[i] != shape_b[j]:
            raise ShapeError(
                f"jnp.{name} needs contracted dimensions of one size, got {shape_a[i]} and {shape_b[j]}.",
                got=[f"a: {type_of(a)!r}, dimension {i}", f"b: {type_of(b)!r}, dimension {j}"],
                do="Transpose or reshape one operand.",
            )


@numpy_function(static=("precision", "preferred"))
def _matmul(a: Any, b: Any, precision: Any, preferred: Any) -> Any:
    a, b, dtype, weak = _operands("matmul", a, b, preferred)
    for i, x in enumerate((a, b)):
        if _ndim(x) < 1:
            raise ShapeError(
                "jnp.matmul needs operands with at least one dimension.",
                got=f"argument {i}: {type_of(x)!r}",
                do="Use `*` for scalars.",
            )
    a_shape, b_shape = type_of(a).shape, type_of(b).shape
    n_batch = len(b_shape) - 2
    if n_batch <= 0:  # the axes of `a`, then the columns of `b`: a product has them in this order
        dims: Any = (((len(a_shape) - 1,), (0,)), ((), ()))
        _check_contracted("matmul", a, b, dims)
        return _product(a, b, dims, precision, dtype, weak)
    if a_shape[:-2] == b_shape[:-2]:
        batch_axes = tuple(range(n_batch))
        dims = (((len(a_shape) - 1,), (n_batch,)), (batch_axes, batch_axes))
        _check_contracted("matmul", a, b, dims)
        return _product(a, b, dims, precision, dtype, weak)
    a_vector, b_vector = len(a_shape) == 1, len(b_shape) == 1
    a_batch, b_batch = type_of(a).shape[:-2], type_of(b).shape[:-2]
    try:
        batch = broadcasting.broadcast_shapes(a_batch, b_batch)
    except ShapeError:
        raise ShapeError(
            "jnp.matmul got batch dimensions that can't be broadcast together.",
            got=[f"a: {type_of(a)!r}", f"b: {type_of(b)!r}"],
        ) from None
    # Where one side has size 1 (or nothing) along a batch dimension, the other's is a free dimension.
    a, a_squeezed = _dropped_ones(a, batch, 1 if a_vector else 2)
    b, b_squeezed = _dropped_ones(b, batch, 1 if b_vector else 2)
    a_named = [i for i in range(len(batch)) if i not in a_squeezed]
    b_named = [i for i in range(len(batch)) if i not in b_squeezed]
    shared = [i for i in a_named if i in b_named]
    left_batch = tuple(a_named.index(i) for i in shared)
    right_batch = tuple(b_named.index(i) for i in shared)
    left = _ndim(a) - 1
    right = _ndim(b) - (1 if b_vector else 2)
    dims = (((left,), (right,)), (left_batch, right_batch))
    _check_contracted("matmul", a, b, dims)
    result = _product(a, b, dims, precision, dtype, weak)
    order = [*shared, *(i for i in a_named if i not in shared), *([] if a_vector else ["row"]),
             *(i for i in b_named if i not in shared), *([] if b_vector else ["column"])]  # fmt: skip
    wanted = [*range(len(batch)), *([] if a_vector else ["row"]), *([] if b_vector else ["column"])]
    present = [i for i in wanted if i in order]
    result = movement.transpose(result, [order.index(i) for i in present])
    missing = [k for k, i in enumerate(wanted) if i not in order]
    return broadcasting.expand_dims(result, missing) if missing else result


def _dropped_ones(x: Any, batch: tuple[int, ...], core: int) -> tuple[Any, list[int]]:
    """`x` without batch dimensions of size 1 that others stretch, and which of the batch dimensions it lacks."""
    shape = type_of(x).shape
    own = len(shape) - core
    lead = len(batch) - own
    squeezed = list(range(lead))
    drop = []
    for i in range(own):
        if shape[i] == 1:
            drop.append(i)
            squeezed.append(lead + i)
    return movement.squeeze(x, drop), squeezed


def matmul(
    a: Any,
    b: Any,
    *,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Any:
    """Matrix product; leading dimensions are batches and are broadcast, vectors are rows or columns.

    >>> matmul(np.eye(2, dtype=np.float32), np.float32([1, 2]))
    Array([1., 2.], dtype=float32)
    """
    return _matmul(a, b, _hashable(precision), _preferred(preferred_element_type, "matmul"))


def vdot(a: Any, b: Any, *, precision: Any = None, preferred_element_type: Any = None) -> Any:
    """Inner product of the raveled arrays, the first conjugated."""
    a = _raveled("vdot", a)
    if type_of(a).dtype.kind == "c":
        a = complex_parts.conj(a)
    return dot(
        a, _raveled("vdot", b), precision=precision, preferred_element_type=preferred_element_type
    )


def _raveled(name: str, x: Any) -> Any:
    return movement.reshape(x, (aval_of(name, x).size,))


def inner(a: Any, b: Any, *, precision: Any = None, preferred_element_type: Any = None) -> Any:
    """Sum of products over the last axes of `a` and `b`."""
    if aval_of("inner", a).ndim == 0 or aval_of("inner", b, 1).ndim == 0:
        a, b = promote_dtypes("inner", a, b)
        return arithmetic.mul(a, b)
    return tensordot(
        a, b, (-1, -1), precision=precision, preferred_element_type=preferred_element_type
    )


def outer(a: Any, b: Any, out: None = None) -> Any:
    """Products of all pairs of elements of the raveled arrays.

    >>> outer(np.arange(2), np.arange(3)).shape
    (2, 3)
    """
    return _outer(a, b)


@numpy_function
def _outer(a: Any, b: Any) -> Any:
    a, b = promote_dtypes("outer", a, b)
    column = broadcasting.expand_dims(_raveled("outer", a), (1,))
    row = broadcasting.expand_dims(_raveled("outer", b), (0,))
    return (
        logical.bitwise_and(column, row)
        if type_of(a).dtype == np.bool_
        else arithmetic.mul(column, row)
    )


def tensordot(
    a: Any,
    b: Any,
    axes: Any = 2,
    *,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Any:
    """Sum of products over pairs of axes: the last and first `axes`, or the axes named for each operand.

    >>> tensordot(np.ones((2, 3)), np.ones((3, 4)), 1).shape
    (2, 4)
    """
    first, second = aval_of("tensordot", a), aval_of("tensordot", b, 1)
    if np.ndim(axes) == 0:
        n = operator.index(axes)
        if not 0 <= n <= min(first.ndim, second.ndim):
            raise ArgumentValueError(
                f"jnp.tensordot can't contract {n} axes.", got=[f"a: {first!r}", f"b: {second!r}"]
            )
        left, right = tuple(range(first.ndim - n, first.ndim)), tuple(range(n))
    else:
        left, right = (
            canonical_axes(x, v.ndim) for x, v in zip(axes, (first, second), strict=True)
        )
        if len(left) != len(right):
            raise ArgumentValueError(
                "jnp.tensordot needs as many axes of `a` as of `b`.", got=f"axes: {axes}"
            )
    return _tensordot(
        a, b, left, right, _hashable(precision), _preferred(preferred_element_type, "tensordot")
    )


@numpy_function(static=("left", "right", "precision", "preferred"))
def _tensordot(a: Any, b: Any, left: Any, right: Any, precision: Any, preferred: Any) -> Any:
    a, b, dtype, weak = _operands("tensordot", a, b, preferred)
    dims = ((left, right), ((), ()))
    _check_contracted("tensordot", a, b, dims)
    return _product(a, b, dims, precision, dtype, weak)


def kron(a: Any, b: Any) -> Any:
    """Kronecker product: every element of `a` times `b`, arranged in blocks."""
    return _kron(a, b)


@numpy_function
def _kron(a: Any, b: Any) -> Any:
    a, b = promote_dtypes("kron", a, b)
    ndim = max(_ndim(a), _ndim(b))
    a = broadcasting.expand_dims(a, range(ndim - _ndim(a)))
    b = broadcasting.expand_dims(b, range(ndim - _ndim(b)))
    shape = [m * n for m, n in zip(type_of(a).shape, type_of(b).shape, strict=True)]
    a = broadcasting.expand_dims(a, range(1, 2 * ndim, 2))
    b = broadcasting.expand_dims(b, range(0, 2 * ndim, 2))
    return movement.reshape(arithmetic.mul(a, b), shape)


def vecdot(
    x1: Any,
    x2: Any,
    /,
    *,
    axis: int = -1,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Any:
    """Inner product along `axis`, the first conjugated; the other axes are broadcast."""
    first, second = aval_of("vecdot", x1), aval_of("vecdot", x2, 1)
    x1 = movement.move_axis(x1, canonical_axis(axis, first.ndim), first.ndim - 1)
    x2 = movement.move_axis(x2, canonical_axis(axis, second.ndim), second.ndim - 1)
    if first.dtype.kind == "c":
        x1 = complex_parts.conj(x1)
    rows = broadcasting.expand_dims(x1, (first.ndim - 1,))
    columns = broadcasting.expand_dims(x2, (second.ndim,))
    product = matmul(
        rows, columns, precision=precision, preferred_element_type=preferred_element_type
    )
    ndim = _ndim(product)
    return movement.squeeze(product, (ndim - 2, ndim - 1))


# einsum -------------------------------------------------------------------------------------------------


def einsum_path(subscripts: Any, /, *operands: Any, optimize: Any = "auto") -> Any:
    """The order in which `einsum` contracts its operands, and a text about its cost."""
    return opt_einsum.contract_path(
        subscripts, *map(_Shaped, operands), optimize=_strategy(optimize)
    )


class _Shaped:
    """What opt_einsum reads of an operand."""

    def __init__(self, x: Any) -> None:
        self.shape = aval_of("einsum", x).shape


def _strategy(optimize: Any) -> Any:
    return "optimal" if optimize is True else [(0, 1)] if optimize is False else optimize


def einsum(
    subscripts: Any,
    /,
    *operands: Any,
    out: None = None,
    optimize: Any = "auto",
    precision: Any = None,
    preferred_element_type: Any = None,
    _dot_general: Any = None,
    out_sharding: Any = None,
) -> Any:
    """Sums of products as Einstein's notation writes them: `"ij,jk->ik"` is a matrix product.

    >>> einsum("ij,j->i", np.ones((2, 3), np.float32), np.ones(3, np.float32))
    Array([3., 3.], dtype=float32)
    """
    if not isinstance(subscripts, str):
        subscripts, operands = _from_lists(subscripts, operands)
    shapes = [aval_of("einsum", x, i).shape for i, x in enumerate(operands)]
    inputs, output = _parsed(subscripts, shapes)
    if len(operands) > 2:
        notation = ",".join(inputs) + "->" + output
        path, _ = opt_einsum.contract_path(
            notation, *shapes, shapes=True, optimize=_strategy(optimize)
        )
        path = tuple(tuple(step) for step in path)
    else:
        path = (tuple(range(len(operands))),)
    return _einsum(
        list(operands),
        tuple(inputs),
        output,
        path,
        _hashable(precision),
        _preferred(preferred_element_type, "einsum"),
    )


def _from_lists(first: Any, rest: Sequence[Any]) -> tuple[str, list[Any]]:
    """Subscripts as text, for operands each followed by a list of numbers of its axes."""
    items = [first, *rest]
    operands, lists = items[: len(items) - len(items) % 2 : 2], items[1::2]
    letters: dict[Any, str] = {}

    def text(names: Any) -> str:
        return "".join(
            "..." if n is Ellipsis else letters.setdefault(n, opt_einsum.get_symbol(len(letters)))
            for n in names
        )

    inputs = [text(names) for names in lists]
    notation = ",".join(inputs)
    return (notation + "->" + text(items[-1]) if len(items) % 2 else notation), operands


def _parsed(subscripts: str, shapes: Sequence[tuple[int, ...]]) -> tuple[list[str], str]:
    """Letters of each operand and of the result, ellipses replaced by letters of their own."""
    text = subscripts.replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(shapes):
        raise ArgumentValueError(
            f"jnp.einsum got subscripts for {len(terms)} operands and {len(shapes)} operands.",
            got=subscripts,
        )
    used = set(text) - set(".,->")
    free = [c for c in (opt_einsum.get_symbol(i) for i in range(200)) if c not in used]
    ranks = [len(s) - (len(t) - 3) if "..." in t else 0 for t, s in zip(terms, shapes, strict=True)]
    longest = max(ranks, default=0)
    if any(r < 0 for r in ranks):
        raise ShapeError(
            "jnp.einsum got an operand with fewer dimensions than its subscripts name.",
            got=subscripts,
        )
    dots = "".join(free[:longest])
    inputs = [t.replace("...", dots[longest - r :]) for t, r in zip(terms, ranks, strict=True)]
    for letters, shape in zip(inputs, shapes, strict=True):
        if len(letters) != len(shape):
            raise ShapeError(
                f"jnp.einsum: subscripts {letters!r} name {len(letters)} dimensions of an operand that has {len(shape)}.",
                got=subscripts,
            )
    if arrow:
        output = right.replace("...", dots)
    else:
        joined = "".join(inputs)
        output = dots + "".join(
            sorted(c for c in set(joined) if joined.count(c) == 1 and c not in dots)
        )
    unknown = set(output) - set("".join(inputs))
    if unknown or len(set(output)) != len(output):
        raise ArgumentValueError(
            "jnp.einsum: the result's subscripts must be among the operands', each once.",
            got=subscripts,
        )
    _check_sizes(inputs, shapes, subscripts)
    return inputs, output


def _check_sizes(inputs: Sequence[str], shapes: Sequence[tuple[int, ...]], subscripts: str) -> None:
    sizes: dict[str, int] = {}
    for letters, shape in zip(inputs, shapes, strict=True):
        for letter, size in zip(letters, shape, strict=True):
            known = sizes.setdefault(letter, size)
            if size != known and 1 not in (size, known):
                raise ShapeError(
                    f"jnp.einsum: subscript {letter!r} stands for sizes {known} and {size}.",
                    got=subscripts,
                )
            sizes[letter] = max(known, size)


@numpy_function(static=("inputs", "output", "path", "precision", "preferred"))
def _einsum(
    operands: Any, inputs: Any, output: str, path: Any, precision: Any, preferred: Any
) -> Any:
    if len(operands) > 1:
        operands = promote_dtypes("einsum", *operands)
    terms = list(zip(operands, inputs, strict=True))
    pairs = [(aval.dtype, aval.weak_type) for aval in map(type_of, operands)]
    dtype, weak = dtypes.promote(tuple(pairs)) if preferred is None else (preferred, False)
    for step in path:
        chosen = [terms.pop(i) for i in sorted(step, reverse=True)][::-1]
        if len(path) > 1 and len(chosen) == 2:
            chosen = chosen[
                ::-1
            ]  # opt_einsum appends results; the reference contracts the later one first
        needed = set(output).union(*(letters for _, letters in terms))
        terms.append(_contract(chosen, needed, precision, dtype))
    [(result, letters)] = terms
    result = movement.transpose(result, [letters.index(c) for c in output])
    return convert(result, type_of(result), dtype, weak)


def _contract(chosen: list[Any], needed: set[str], precision: Any, dtype: Any) -> tuple[Any, str]:
    """One or two operands contracted to the letters that are still needed."""
    others = [set(letters) for _, letters in chosen]
    reduced = []
    for i, (x, letters) in enumerate(chosen):
        keep = needed.union(*(o for j, o in enumerate(others) if j != i))
        reduced.append(_alone(x, letters, keep))
    if len(reduced) == 1:
        return reduced[0]
    (a, left), (b, right) = reduced
    a, left, b, right = _stretched(a, left, b, right)
    shared = [c for c in left if c in right]
    batch = [c for c in shared if c in needed]
    summed = [c for c in shared if c not in needed]
    dims = (
        (tuple(left.index(c) for c in summed), tuple(right.index(c) for c in summed)),
        (tuple(left.index(c) for c in batch), tuple(right.index(c) for c in batch)),
    )
    product = contraction.dot_general(a, b, dims, precision, dtype)
    rest = [c for c in left if c not in shared] + [c for c in right if c not in shared]
    return product, "".join(batch + rest)


def _alone(x: Any, letters: str, keep: set[str]) -> tuple[Any, str]:
    """`x` with repeated letters taken on the diagonal and letters that nobody needs summed."""
    for letter in dict.fromkeys(letters):
        while letters.count(letter) > 1:
            i = letters.index(letter)
            j = letters.index(letter, i + 1)
            x = _diagonal(x, i, j)
            letters = letters[:j] + letters[j + 1 :]
    summed = [i for i, c in enumerate(letters) if c not in keep]
    if summed:
        x = broadcasting.reduce_sum(x, summed)
        letters = "".join(c for c in letters if c in keep)
    return x, letters


def _diagonal(x: Any, i: int, j: int) -> Any:
    """`x` with axes `i` and `j` replaced by their diagonal, at `i`."""
    shape = type_of(x).shape
    size = shape[i]
    mask = broadcasting.broadcast_in_dim(np.eye(size, dtype=bool), shape, (i, j))
    zeros = broadcasting.broadcast_in_dim(np.zeros((), type_of(x).dtype)[()], shape, ())
    return broadcasting.reduce_sum(logical.select_n(mask, zeros, x), (j,))


def _stretched(a: Any, left: str, b: Any, right: str) -> tuple[Any, str, Any, str]:
    """Both operands without shared letters along which one has size 1 and the other more."""
    a_shape, b_shape = type_of(a).shape, type_of(b).shape
    for letter in [c for c in left if c in right]:
        m, n = a_shape[left.index(letter)], b_shape[right.index(letter)]
        if m == n:
            continue
        if m == 1:
            a, left = movement.squeeze(a, (left.index(letter),)), left.replace(letter, "")
        else:
            b, right = movement.squeeze(b, (right.index(letter),)), right.replace(letter, "")
        a_shape, b_shape = type_of(a).shape, type_of(b).shape
    return a, left, b, right


__all__ = [
    "dot", "einsum", "einsum_path", "inner", "kron", "matmul", "outer", "tensordot", "vdot", "vecdot",
]  # fmt: skip
