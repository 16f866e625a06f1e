"""Loops over grids within a kernel, and orders in which they go through them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid import numpy as jnp
from pellucid._machine.base import ArgumentValueError, Function, ints
from pellucid._machine.base.functional import strict_zip
from pellucid._machine.higher_order.loops import fori_loop
from pellucid._machine.parallel.axes import axis_index, axis_size
from pellucid._machine.transforms import check_callable
from pellucid.kernels.programs import position


class NDLoopInfo(NamedTuple):
    """Where a turn of `nd_loop` is: its index in the grid, its number among those of this program, how many those are."""

    index: tuple[Any, ...]
    local_index: Any
    num_local_steps: Any


def nd_loop(
    grid: Sequence[int],
    *,
    collective_axes: Any,
    tiling: Sequence[int] | None = None,
    init_carry: Any = None,
) -> Callable[[Function], Any]:
    """A decorator that runs a function of an `NDLoopInfo` for the points of a grid, of which programs along `collective_axes` take turns.

    Points are in row-major order, with a `tiling` tile by tile; program `i` of `n` takes those of number `i`, `i + n`, and so on. With an `init_carry`, the
    function also takes `carry` and returns the next one; the last one replaces the function's name. Raises: ArgumentValueError for a tiling that doesn't divide
    the grid.

    >>> from pellucid.experimental.pallas import mosaic_gpu
    >>> def body(o_ref):
    ...     @nd_loop((2, 3), collective_axes="x")
    ...     def _(info):
    ...         i, j = info.index
    ...         o_ref[i, j] = 10 * i + j
    >>> mosaic_gpu.kernel(body, np.zeros((2, 3), np.int32), grid=(4,), grid_names=("x",))()
    Array([[ 0,  1,  2],
           [10, 11, 12]], dtype=int32)
    """
    sizes = _sizes("grid", grid, 0)
    # Tiles have a size, so that a grid without points has numbers of tiles.
    tiles = tuple([max(n, 1) for n in sizes]) if tiling is None else _sizes("tiling", tiling, 1)
    if len(tiles) != len(sizes) or any(n % t for n, t in zip(sizes, tiles, strict=False)):
        raise ArgumentValueError(
            "nd_loop: the sizes of a tiling divide those of the grid.",
            got=f"tiling {tiling}, grid {sizes}",
        )

    def run(body: Function) -> Any:
        check_callable(body, "nd_loop")
        n, own, total = axis_size(collective_axes), axis_index(collective_axes), math.prod(sizes)
        # Programs with a number below the remainder take one more.
        count = (np.int32(total + n - 1) - own) // np.int32(n)

        def turn(k: Any, carry: Any) -> Any:
            number = k * np.int32(n) + own
            # The position of the tile, then that within it.
            cut = position(number, [*[s // t for s, t in strict_zip(sizes, tiles)], *tiles])
            m = len(sizes)
            index = tuple([cut[i] * np.int32(tiles[i]) + cut[m + i] for i in range(m)])
            info = NDLoopInfo(index, k, count)
            if init_carry is not None:
                return body(info, carry=carry)
            body(info)
            return None

        return fori_loop(np.int32(0), count, turn, init_carry)

    return run


def _sizes(name: str, sizes: Any, least: int) -> tuple[int, ...]:
    """The sizes of a grid or of its tiles. Raises: ArgumentValueError for such below `least`."""
    found = ints(sizes)
    if any(n < least for n in found):
        raise ArgumentValueError(
            f"nd_loop: sizes of `{name}` are numbers from {least} on.", got=f"{name} {found}"
        )
    return found


def planar_snake(
    lin_idx: Any, shape: tuple[Any, Any], minor_dim: int, tile_width: int
) -> tuple[Any, Any]:
    """The index in `shape` of point `lin_idx` of an order that goes through tiles of `tile_width` along `minor_dim`, up and down in turn.

    Points that follow each other so lie near each other, and share blocks in the cache. Raises: ArgumentValueError for another dimension than 0 or 1.

    >>> [tuple(map(int, planar_snake(np.int32(i), (4, 2), 0, 2))) for i in range(8)]
    [(0, 0), (1, 0), (0, 1), (1, 1), (2, 1), (3, 1), (2, 0), (3, 0)]
    """
    if minor_dim not in (0, 1) or tile_width < 1:
        raise ArgumentValueError(
            "planar_snake: `minor_dim` is 0 or 1, `tile_width` at least 1.",
            got=f"minor_dim={minor_dim!r:.20}, tile_width={tile_width!r:.20}",
        )
    minor, major, index = [
        jnp.asarray(x, np.int32) for x in (shape[minor_dim], shape[1 - minor_dim], lin_idx)
    ]
    width = np.int32(tile_width)
    tile = index // (width * major)
    # The last tile may be narrower.
    own = jnp.minimum(width, minor - tile * width)
    within = index - tile * width * major
    row, column = within // own, within % own
    row = jnp.where(tile % 2 == 1, major - 1 - row, row)
    column = tile * width + column
    return (column, row) if minor_dim == 0 else (row, column)
