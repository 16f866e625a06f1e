"""Places of elements in blocks, and the kernels that make a number of each place."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import pellucid.numpy as jnp
from pellucid._machine.base import ArgumentValueError, Shape, public_functions
from pellucid._machine.ir import shaped_array
from pellucid.kernels.grid import program_id
from pellucid.kernels.kernel_call import pallas_call
from pellucid.kernels.specs import BlockSpec, CompilerParams
from pellucid.kernels.tpu import MemorySpace

_UINT32 = np.dtype(np.uint32)


def round_up(x: int, y: int) -> int:
    """The least multiple of `y` that is no less than `x`.

    >>> round_up(5, 4)
    8
    """
    return -(-x // y) * y


def _strides(shape: Sequence[int]) -> list[int]:
    return [math.prod(shape[i + 1 :]) for i in range(len(shape))]


def blocked_iota(block_shape: Sequence[int], total_shape: Sequence[int]) -> Any:
    """For each element of the first block of an array of `total_shape` its place in the whole, row by row.

    >>> blocked_iota((2, 3), (8, 10))
    Array([[ 0,  1,  2],
           [10, 11, 12]], dtype=uint32)
    """
    places = jnp.zeros(tuple(block_shape), _UINT32)
    for axis, stride in enumerate(_strides(total_shape)):
        along = jnp.arange(block_shape[axis], dtype=_UINT32) * np.uint32(stride % (1 << 32))
        places = places + jnp.expand_dims(along, [i for i in range(len(block_shape)) if i != axis])
    return places


def compute_scalar_offset(
    iteration_index: Sequence[Any], total_size: Sequence[int], block_size: Sequence[int]
) -> Any:
    """The place in the whole of the first element of block number `iteration_index`.

    >>> compute_scalar_offset((1, 1), (8, 10), (2, 5))
    25
    """
    terms = zip(iteration_index, block_size, _strides(total_size), strict=True)
    return sum([index * (size * stride) for index, size, stride in terms])


def bits_of_places(
    name: str,
    key: Any,
    shape: Shape,
    unpadded_shape: Shape,
    block_size: tuple[int, int],
    offset: Any,
    words: Callable[[Any, Any, Any], Sequence[Any]],
    n_words: int,
) -> Any:
    """[n_words, *shape]: `words(k0, k1, counters)` for the halves of a key, block by block; counters are places of elements plus `offset`.

    Places count in `unpadded_shape`. Raises: ArgumentValueError for a matrix that blocks don't divide.
    """
    if len(shape) != 2 or any(n % b for n, b in zip(shape, block_size, strict=True)):
        raise ArgumentValueError(
            f"{name} needs a matrix that blocks divide.",
            got=f"shape {tuple(shape)}, blocks of {block_size}",
        )

    def kernel(key_ref: Any, offset_ref: Any, *o_refs: Any) -> None:
        # Counters have 32 bits, and wrap around.
        steps = [
            np.uint32(n * m % (1 << 32))
            for n, m in zip(block_size, _strides(unpadded_shape), strict=True)
        ]
        first = program_id(0).astype(_UINT32) * steps[0] + program_id(1).astype(_UINT32) * steps[1]
        places = blocked_iota(block_size, unpadded_shape) + (offset_ref[0] + first)
        for ref, x in zip(o_refs, words(key_ref[0], key_ref[1], places), strict=True):
            ref[...] = x

    scalars = BlockSpec(memory_space=MemorySpace.SMEM)
    tile = BlockSpec(block_size, lambda i, j: (i, j))
    return jnp.stack(
        pallas_call(
            kernel,
            [shaped_array(tuple(shape), _UINT32)] * n_words,
            grid=(shape[0] // block_size[0], shape[1] // block_size[1]),
            in_specs=[scalars, scalars],
            out_specs=[tile] * n_words,
            compiler_params=CompilerParams(dimension_semantics=("parallel", "parallel")),
            name=name,
        )(jnp.asarray(key), jnp.asarray(offset).astype(_UINT32)[None])
    )


def as_matrix(shape: Shape, block_size: tuple[int, int]) -> tuple[tuple[int, int], tuple[int, int]]:
    """(`shape` with all dimensions but the last one joined, that shape rounded up to whole blocks)."""
    columns = shape[-1] if shape else 1
    rows = math.prod(shape[:-1])
    padded = (round_up(rows, block_size[0]), round_up(columns, block_size[1]))
    return (rows, columns), padded


__all__ = ["Shape", "blocked_iota", "compute_scalar_offset", "round_up"]

public_functions(__all__, globals())
