"""Eigenvalues of Hermitian matrices by division of their spectrum: parts of it are split off until they are small.

A block H is shifted by a number σ within its spectrum. The polar factor U of H - σ is its matrix sign: (1 - U) / 2 is the
projector on the eigenvectors of eigenvalues below σ. A basis of its range, and of the rest, makes H two blocks. Blocks lie
along the diagonal of one matrix, in the order of their eigenvalues; those that are still to be split are on a stack.
Shapes don't depend on values: a block is cut out as a window of one of a few sizes, with a mask.

Source: Nakatsukasa and Higham, Stable and efficient spectral divide and conquer algorithms for the symmetric eigenvalue
decomposition and the SVD (2013); bases by random matrices: Demmel, Dumitriu and Holtz, Fast linear algebra is stable (2007).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.higher_order.cond import switch
from pellucid._machine.higher_order.loops import fori_loop, while_loop
from pellucid._machine.primitives.arithmetic import (
    add,
    div,
    max as greater,
    min as smaller,
    mul,
    round as rounded,
    sqrt,
    square,
    sub,
)
from pellucid._machine.primitives.assembly import concatenate
from pellucid._machine.primitives.conversion import convert_quietly, imag, real
from pellucid._machine.primitives.creation import full_like, iota
from pellucid._machine.primitives.logical import (
    bitwise_and,
    bitwise_not,
    bitwise_or,
    eq,
    ge,
    gt,
    is_finite,
    le,
    lt,
    select_n,
)
from pellucid._machine.primitives.movement import broadcast_in_dim, reduce_sum
from pellucid._machine.primitives.random_bits import RandomAlgorithm, rng_bit_generator
from pellucid._machine.primitives.reduction import reduce_max
from pellucid._machine.primitives.slicing import (
    dynamic_index_in_dim,
    dynamic_slice,
    dynamic_slice_in_dim,
    dynamic_update_index_in_dim,
    dynamic_update_slice,
    dynamic_update_slice_in_dim,
    index_in_dim,
    slice_in_dim,
)
from pellucid._machine.primitives.sorting import sort, take_along
from pellucid._machine.tracing import type_of
from pellucid._machine.transforms.vmap import vmap
from pellucid._machine.xla.arrays import Array

from .matrices import H, diagonal_of, hermitian_part, identity, is_at, nan_unless, product
from .polar import divide_by_bound, divide_by_largest, halley_steps, iteration_weights, largest_part
from .qr import qr

SMALLEST_DIVIDED = 256
"""Matrices of up to this size are decomposed at once."""
_SHIFTS = (0.003, -0.007, 0.05, -0.11, 0.23, -0.41, 0.6, -0.83)
"""Distances of σ from the middle of a spectrum, in standard deviations of it: one for each try, as σ may hit an eigenvalue."""
_INT32 = np.dtype(np.int32)
Solver = Callable[[Array], tuple[Array, Array]]
"""(eigenvectors, increasing eigenvalues) of a small Hermitian matrix."""


class _Work(NamedTuple):
    """What is known between two splits; the stack has the first row, the size and the failures of blocks."""

    blocks: Any
    """Vᴴ H V, block by block; 0 beside them."""
    vectors: Any
    """V."""
    starts: Any
    sizes: Any
    tries: Any
    height: Any
    """Number of blocks on the stack."""
    failed: Any
    scale: Any
    """By what H is divided."""
    negligible: Any
    """Norms that are 0, next to that of H."""


class _Block(NamedTuple):
    """A block on the stack."""

    start: Any
    size: Any
    tries: Any


class _Window(NamedTuple):
    """Where a block lies in a window that may be larger."""

    position: Any
    """The window's rows, counted from the block's first one."""
    size: Any
    """The block's."""

    def holds(self, first: Any, end: Any) -> Array:
        """Which rows of the block lie from `first` to `end`."""
        return bitwise_and(
            ge(self.position, full_like(self.position, first)),
            lt(self.position, full_like(self.position, end)),
        )

    @property
    def inside(self) -> Array:
        """Which rows of the window are the block's."""
        return self.holds(0, self.size)


class _Part(NamedTuple):
    """What became of a block: a unitary matrix, the block in its basis, and the size of its first part.

    That size is 0 where the block is done, and -1 where it couldn't be split.
    """

    turn: Any
    block: Any
    first: Any


def divide_spectrum(
    x: Array,
    solve: Solver,
    *,
    subset: tuple[int, int] | None = None,
    smallest: int = SMALLEST_DIVIDED,
) -> tuple[Array, Array]:
    """(eigenvectors, increasing eigenvalues) of the Hermitian matrices in `x`, of shape [..., n, n], n ≥ `smallest`.

    `solve` decomposes blocks, whose size is `smallest`. Of `subset` (start, end) only these are found: what else is in the
    results means nothing. All are NaN where `x` isn't finite, and where a spectrum can't be divided. Matrices of a batch
    take their steps together, in windows for the largest of their blocks, so that each device keeps its own ones.
    """
    ndim, n = type_of(x).ndim - 2, type_of(x).shape[-1]
    wanted = subset or (0, n)
    sizes = _window_sizes(n, smallest)
    kinds = [functools.partial(_solve_block, solve, smallest)]
    kinds += [functools.partial(_split_block, size) for size in sizes[1:]]
    branches = [_for_each(kind, ndim) for kind in kinds]
    pop, finish = (_for_each(f, ndim) for f in (_pop, functools.partial(_finish, wanted=wanted)))

    def goes_on(work: _Work) -> Array:
        return gt(_greatest(work.height), np.int32(0))

    def step(work: _Work) -> _Work:
        block = pop(work)
        is_larger = gt(_greatest(block.size), np.array(sizes[:-1], np.int32))
        kind = reduce_sum(convert_quietly(is_larger, _INT32), (0,))
        first, blocks, vectors = switch(
            kind, branches, work.blocks, work.vectors, work.negligible, block
        )
        return finish(work._replace(blocks=blocks, vectors=vectors), block, first)

    work = while_loop(goes_on, step, _for_each(functools.partial(_begin, wanted=wanted), ndim)(x))
    return _for_each(functools.partial(_end, wanted=wanted), ndim)(work)


def _for_each(function: Any, ndim: int) -> Any:
    """`function` of the elements along `ndim` leading axes."""
    return function if ndim == 0 else vmap(_for_each(function, ndim - 1))


def _greatest(x: Array) -> Array:
    return reduce_max(x, tuple(range(type_of(x).ndim)))


def _begin(x: Array, *, wanted: tuple[int, int]) -> _Work:
    n = type_of(x).shape[0]
    is_usable = is_finite(largest_part(x))
    x, scale = divide_by_largest(select_n(is_usable, full_like(x, 0), x))
    # Splits leave out what is below the rounding errors of a decomposition.
    negligible = mul(_norm(x), _like(scale, 2 * np.finfo(type_of(scale).dtype).eps))
    # Zeros are made of `x`, so that they lie where it does.
    row = convert_quietly(mul(_real_diagonal(x), _like(scale, 0)), _INT32)
    none = concatenate([row, slice_in_dim(row, 0, 1)], 0)
    zero = index_in_dim(row, 0, keepdims=False)
    vectors = add(mul(x, _like(x, 0)), identity(x, n))
    work = _Work(x, vectors, none, none, none, zero, bitwise_not(is_usable), scale, negligible)
    return _put(work, zero, add(zero, np.int32(n)), zero, eq(zero, zero), wanted)


def _pop(work: _Work) -> _Block:
    """The block on the top of the stack; one of size 0 if there is none."""
    top = sub(work.height, np.int32(1))
    start, size, tries = (
        dynamic_index_in_dim(of, top, keepdims=False, allow_negative_indices=False)
        for of in (work.starts, work.sizes, work.tries)
    )
    return _Block(start, select_n(ge(top, np.int32(0)), full_like(size, 0), size), tries)


def _finish(work: _Work, block: _Block, first: Array, *, wanted: tuple[int, int]) -> _Work:
    """The work with the parts of a block on the stack in its place, or with the block to be tried again."""
    zero = full_like(first, 0)
    is_split, is_failure = gt(first, zero), lt(first, zero)
    tries_left = lt(block.tries, np.int32(len(_SHIFTS) - 1))
    again = bitwise_and(is_failure, tries_left)
    work = work._replace(
        height=greater(sub(work.height, np.int32(1)), zero),
        failed=bitwise_or(work.failed, bitwise_and(is_failure, bitwise_not(tries_left))),
    )
    work = _put(work, block.start, block.size, add(block.tries, np.int32(1)), again, wanted)
    work = _put(work, block.start, first, zero, is_split, wanted)
    rest = sub(block.size, first)
    return _put(work, add(block.start, first), rest, zero, is_split, wanted)


def _end(work: _Work, *, wanted: tuple[int, int]) -> tuple[Array, Array]:
    values = mul(_real_diagonal(work.blocks), work.scale)
    n = type_of(values).shape[0]
    places = add(mul(slice_in_dim(work.starts, 0, n), np.int32(0)), iota(_INT32, n))
    vectors, values = _in_order(work.vectors, values, places, wanted)
    succeeded = bitwise_not(work.failed)
    return nan_unless(succeeded, vectors), nan_unless(succeeded, values)


def _window_sizes(n: int, smallest: int) -> list[int]:
    """Sizes of windows, increasing to n: a little more than halves, since few spectra are divided in equal parts."""
    sizes = [n]
    while sizes[0] > smallest:
        half = math.ceil(sizes[0] / 1.9)
        sizes.insert(0, smallest if half <= smallest * 1.1 else half)
    return sizes


def _put(
    work: _Work, start: Any, size: Any, tries: Any, condition: Any, wanted: tuple[int, int]
) -> _Work:
    """The work with a block on the stack, if the condition holds and the block has eigenvalues that are wanted."""
    first, end = map(np.int32, wanted)
    is_wanted = bitwise_and(lt(start, end), gt(add(start, size), first))
    more = convert_quietly(bitwise_and(condition, is_wanted), _INT32)
    starts, sizes, counts = (
        dynamic_update_index_in_dim(of, number, work.height, 0)
        for of, number in ((work.starts, start), (work.sizes, size), (work.tries, tries))
    )
    return work._replace(starts=starts, sizes=sizes, tries=counts, height=add(work.height, more))


def _on_window(
    width: int, change: Callable[[Array, _Window], _Part], blocks: Array, vectors: Array, at: _Block
) -> tuple[Any, Array, Array]:
    """(size of the first part, blocks, vectors) after a change of the block `at` some place, seen in a window."""
    n = type_of(blocks).shape[0]
    corner = smaller(at.start, np.int32(n - width))
    window = _Window(add(iota(_INT32, width), sub(corner, at.start)), at.size)
    block = dynamic_slice(blocks, (corner, corner), (width, width))
    inside = _square(window.inside)
    turn, changed, first = change(select_n(inside, full_like(block, 0), block), window)
    blocks = dynamic_update_slice(blocks, select_n(inside, block, changed), (corner, corner))
    old = dynamic_slice_in_dim(vectors, corner, width, 1)
    within = broadcast_in_dim(window.inside, (n, width), (1,))
    new = select_n(within, old, product(old, turn))
    return first, blocks, dynamic_update_slice_in_dim(vectors, new, corner, 1)


def _solve_block(
    solve: Solver, width: int, blocks: Array, vectors: Array, negligible: Array, at: _Block
) -> tuple[Any, Array, Array]:
    """Decomposes a block."""

    def change(block: Array, window: _Window) -> _Part:
        # Numbers beside the block are below and above its eigenvalues, which so keep their places.
        bound = add(_norm(block), _like(_norm(block), 1))
        before = lt(window.position, full_like(window.position, 0))
        beside = select_n(
            before, full_like(bound, 1, shape=(width,)), full_like(bound, -1, shape=(width,))
        )
        beside = mul(beside, broadcast_in_dim(bound, (width,), ()))
        diagonal = select_n(window.inside, beside, _real_diagonal(block))
        turn, values = solve(_with_diagonal(block, diagonal))
        turn = select_n(_square(window.inside), identity(turn, width), turn)
        return _Part(turn, _with_diagonal(full_like(block, 0), values), np.int32(0))

    return _on_window(width, change, blocks, vectors, at)


def _split_block(
    width: int, blocks: Array, vectors: Array, negligible: Array, at: _Block
) -> tuple[Any, Array, Array]:
    """Splits a block in two, of smaller and of greater eigenvalues, unless it is diagonal."""

    def change(block: Array, window: _Window) -> _Part:
        inside = _square(window.inside)
        one = identity(block, width)
        shift = _shift(block, window, at.tries)
        shifted = sub(block, mul(one, convert_quietly(shift, type_of(block).dtype)))
        sign = _sign(select_n(inside, one, shifted))
        below = select_n(
            inside, full_like(block, 0), mul(sub(one, sign), type_of(block).dtype.type(0.5))
        )
        rank = rounded(reduce_sum(_real_diagonal(below), (0,)))
        # NaN, where the sign is, must be no number of rows.
        size_as_real = convert_quietly(window.size, type_of(rank).dtype)
        is_split = bitwise_and(gt(rank, _like(rank, 0)), lt(rank, size_as_real))
        rank = convert_quietly(select_n(is_split, _like(rank, 0), rank), _INT32)
        # The first columns of a random combination are a basis of the range; a second one is accurate.
        turn = fori_loop(0, 2, lambda _, turn: _basis(product(below, turn), inside), _random(block))
        turned = hermitian_part(product(H(turn), block, turn))
        first, second = window.holds(0, rank), window.holds(rank, window.size)
        across = bitwise_or(_pairs(first, second), _pairs(second, first))
        error = _norm(select_n(across, full_like(turned, 0), turned))
        is_split = bitwise_and(is_split, le(error, mul(negligible, _like(error, 8))))
        is_diagonal = le(_norm(_with_diagonal(block, _like(_real_diagonal(block), 0))), negligible)
        turned = select_n(across, turned, full_like(turned, 0))
        taken = bitwise_and(is_split, bitwise_not(is_diagonal))
        first = select_n(is_diagonal, select_n(is_split, np.int32(-1), rank), np.int32(0))
        return _Part(select_n(taken, one, turn), select_n(taken, block, turned), first)

    return _on_window(width, change, blocks, vectors, at)


def _shift(block: Array, window: _Window, tries: Any) -> Array:
    """A number within the spectrum of a block: near the middle of its diagonal, or the mean, in turns."""
    diagonal = _real_diagonal(block)
    count = convert_quietly(window.size, type_of(diagonal).dtype)
    mean = div(reduce_sum(diagonal, (0,)), count)
    inside = _with_diagonal(block, select_n(window.inside, diagonal, sub(diagonal, mean)))
    deviation = div(_norm(inside), sqrt(count))
    increasing = sort(select_n(window.inside, full_like(diagonal, np.inf), diagonal))
    middle = dynamic_index_in_dim(increasing, div(window.size, np.int32(2)), keepdims=False)
    is_odd = eq(sub(tries, mul(div(tries, np.int32(2)), np.int32(2))), np.int32(1))
    shifts = np.array(_SHIFTS, type_of(diagonal).dtype)
    is_this = eq(iota(_INT32, len(_SHIFTS)), broadcast_in_dim(tries, shifts.shape, ()))
    factor = reduce_sum(select_n(is_this, full_like(shifts, 0), shifts), (0,))
    return add(select_n(is_odd, middle, mean), mul(deviation, factor))


def _sign(x: Array) -> Array:
    """The Hermitian and unitary polar factor of a Hermitian matrix."""
    eps = float(np.finfo(type_of(x).dtype).eps)
    weights = iteration_weights(eps / 64, eps, 20)
    u, _ = halley_steps(divide_by_bound(x), weights, is_hermitian=True)
    cubed = product(u, u, u)
    return sub(mul(u, type_of(u).dtype.type(1.5)), mul(cubed, type_of(u).dtype.type(0.5)))


def _basis(x: Array, inside: Array) -> Array:
    """Orthonormal columns, the first ones of which span the first ones of `x`; those of the identity where not `inside`."""
    one = identity(x, type_of(x).shape[0])
    q, _ = qr(select_n(inside, one, x), full_matrices=False)
    return select_n(inside, one, q)


def _random(like: Array) -> Array:
    """A matrix of random numbers from -1 to 1, the same ones each time."""
    aval = type_of(like)
    key = np.array([0x9E3779B9, 0x7F4A7C15, 0xF39CC060, 0x5CEDC834], np.uint32)
    bits = rng_bit_generator(key, aval.shape, np.uint32, RandomAlgorithm.RNG_THREE_FRY)[1]
    numbers = mul(convert_quietly(bits, aval.dtype), aval.dtype.type(2.0**-31))
    return sub(numbers, aval.dtype.type(1))


def _in_order(
    vectors: Array, values: Array, places: Array, wanted: tuple[int, int]
) -> tuple[Array, Array]:
    """Wanted eigenvalues in increasing order, with their vectors; blocks are in order, but for rounding errors."""
    n = type_of(values).shape[0]
    before, after = (0, wanted[0]), (wanted[1], n)
    some = sort([slice_in_dim(x, *wanted) for x in (values, places)], num_keys=1)
    values, places = (
        concatenate([slice_in_dim(x, *before), part, slice_in_dim(x, *after)], 0)
        for x, part in zip((values, places), some, strict=True)
    )
    return take_along(vectors, broadcast_in_dim(places, (n, n), (1,)), 1), values


# Small matters ------------------------------------------------------------------------------------


def _like(x: Array, number: float) -> Array:
    return full_like(x, number)


def _norm(x: Array) -> Array:
    """The Frobenius norm."""
    parts = [real(x), imag(x)] if type_of(x).dtype.kind == "c" else [x]
    return sqrt(functools.reduce(add, [reduce_sum(square(part), (0, 1)) for part in parts]))


def _real_diagonal(x: Array) -> Array:
    diagonal = diagonal_of(x)
    return real(diagonal) if type_of(x).dtype.kind == "c" else diagonal


def _with_diagonal(x: Array, diagonal: Array) -> Array:
    """`x` with another diagonal."""
    n = type_of(x).shape[0]
    on_it = is_at((n, n), 0, eq)
    wide = convert_quietly(broadcast_in_dim(diagonal, (n, n), (0,)), type_of(x).dtype)
    return select_n(on_it, x, wide)


def _pairs(rows: Array, columns: Array) -> Array:
    """Which elements of a matrix lie in these rows and these columns."""
    n = type_of(rows).shape[0]
    return bitwise_and(*(broadcast_in_dim(x, (n, n), (i,)) for i, x in enumerate((rows, columns))))


def _square(inside: Array) -> Array:
    return _pairs(inside, inside)


__all__ = ["SMALLEST_DIVIDED", "divide_spectrum"]
