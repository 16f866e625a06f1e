"""How arrays are spread over the registers of a warpgroup's lanes. Layouts change where elements lie, never values."""

from __future__ import annotations

import enum
import sys
from dataclasses import dataclass
from typing import Any

from pellucid._machine.base import ArgumentTypeError, ArgumentValueError
from pellucid._machine.primitives import broadcasted_iota as iota
from pellucid._machine.refs.access import get
from pellucid._machine.tracing import type_of
from pellucid.kernels.named import LAYOUT_CAST, named

from .memory import refuse_blackwell

_PARAMETERS = {
    "WG_SPLAT": ("shape",),
    "WG_STRIDED": ("shape", "vec_size"),
    "TILED": ("tiling", "warp_dims", "lane_dims", "vector_dim"),
    "SMEM_GMEM_COPY": ("shape", "dtype", "swizzle"),
}
_BLACKWELL = ("TCGEN05", "TMA_INDICES")


@dataclass(frozen=True)
class Replicated:
    """A dimension of a tiled layout along which `times` lanes or warps have the same elements."""

    times: int


@dataclass(frozen=True)
class Tiling:
    """Tiles within tiles: how a shape is cut, from the outermost tile on.

    >>> Tiling(((64, 8), (16, 8))).tiles
    ((64, 8), (16, 8))
    """

    tiles: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "tiles", tuple([tuple(tile) for tile in self.tiles]))
        sizes = [n for tile in self.tiles for n in tile]
        if any(not isinstance(n, int) or n < 1 for n in sizes):
            raise ArgumentValueError("Tiling takes sizes of tiles, from 1 on.", got=f"{self.tiles}")

    def tile_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """`shape` with its last dimensions cut by each tile in turn, tiles last.

        Raises: ArgumentValueError where a tile doesn't divide a dimension.

        >>> Tiling(((8, 4),)).tile_shape((16, 8))
        (2, 2, 8, 4)
        """
        for tile in self.tiles:
            n = len(shape) - len(tile)
            if n < 0 or any(size % t for size, t in zip(shape[n:], tile, strict=True)):
                raise ArgumentValueError(
                    "Tiling: a tile divides the last dimensions.", got=f"{tile}, shape {shape}"
                )
            cut = [size // t for size, t in zip(shape[n:], tile, strict=True)]
            shape = (*shape[:n], *cut, *tile)
        return shape


class Layout(enum.Enum):
    """Layouts of arrays in registers: those of operands and results of `wgmma`, splat, strided, tiled.

    A member is a layout, or called with parameters makes one: `Layout.WG_STRIDED((64, 64), vec_size=2)`. `reduce` is that of a sum along axes.

    >>> Layout.WGMMA.reduce(1)
    Layout.WGMMA.reduce(1)
    """

    WGMMA = 1
    WGMMA_8BIT = 2
    WGMMA_UPCAST_2X = 3
    WGMMA_UPCAST_4X = 4
    WGMMA_TRANSPOSED = 5
    WG_SPLAT = 6
    WG_STRIDED = 7
    TILED = 8
    TCGEN05 = 9
    TCGEN05_TRANSPOSED = 10
    TCGEN05_M64_COLLECTIVE = 11
    TCGEN05_TMEM_NATIVE = 12
    TCGEN05_M64_COLLECTIVE_NATIVE = 13
    SMEM_GMEM_COPY = 14
    TMA_INDICES = 15
    TMA_INDICES_4 = 16

    def __call__(self, *args: Any, **kwargs: Any) -> StatedLayout:
        """The layout with these parameters."""
        return StatedLayout(self, _bind(self, args, kwargs))

    def reduce(self, axes: Any) -> ReducedLayout:
        """The layout of a reduction along `axes` of an array of this layout."""
        return ReducedLayout(self, tuple(axes) if isinstance(axes, (tuple, list)) else (axes,))

    def __repr__(self) -> str:
        return f"Layout.{self.name}"


def _bind(layout: Layout, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    names = _PARAMETERS.get(layout.name, ())
    values = {**dict(zip(names, args, strict=False)), **kwargs}
    if len(args) > len(names) or set(values) - set(names):
        raise ArgumentTypeError(
            f"Layout.{layout.name} takes the parameters {', '.join(names) or 'none'}.",
            got=f"{args}, {kwargs}",
        )
    return tuple([(name, values[name]) for name in names if name in values])


@dataclass(frozen=True)
class StatedLayout:
    """A layout with its parameters, pairs of a name and a value."""

    layout: Layout
    params: tuple[Any, ...]

    def reduce(self, axes: Any) -> ReducedLayout:
        """The layout of a reduction along `axes` of an array of this layout."""
        return ReducedLayout(self, tuple(axes) if isinstance(axes, (tuple, list)) else (axes,))

    def __repr__(self) -> str:
        return f"{self.layout!r}({', '.join([f'{n}={x}' for n, x in self.params])})"


@dataclass(frozen=True)
class ReducedLayout:
    """The layout of a reduction along `axes` of an array of the layout `of`."""

    of: Any
    axes: tuple[int, ...]

    def __repr__(self) -> str:
        return f"{self.of!r}.reduce({', '.join(map(str, self.axes))})"


def layout_text(caller: str, layout: Any) -> str:
    """A layout as text, which is how programs state it. Raises: ArgumentTypeError for what is none, UnsupportedError for those of Blackwell."""
    if not isinstance(layout, (Layout, StatedLayout, ReducedLayout)):
        raise ArgumentTypeError(
            f"{caller} takes a layout of arrays in registers, such as `Layout.WGMMA`.",
            got=f"got {layout!r:.60}",
        )
    text = repr(layout)
    for name in _BLACKWELL:
        if name in text:
            refuse_blackwell(text)
    return text


def layout_cast(x: Any, new_layout: Any) -> Any:
    """`x`, which lies in registers in the layout `new_layout` from here on.

    Raises: ArgumentTypeError for what is no layout; UnsupportedError for one of Blackwell GPUs.

    >>> layout_cast(np.arange(2), Layout.WG_SPLAT((2,)))
    array([0, 1])
    """
    return named(LAYOUT_CAST, lambda x: x, x, layout=layout_text("layout_cast", new_layout))


def broadcasted_iota(
    dtype: Any, shape: tuple[int, ...], dimension: int, *, layout: Any = None
) -> Any:
    """An array of `shape` of the positions along `dimension`, in a layout if one is stated.

    >>> broadcasted_iota(np.int32, (2, 2), 1)
    Array([[0, 1],
           [0, 1]], dtype=int32)
    """
    x = iota(dtype, tuple(shape), dimension)
    return x if layout is None else layout_cast(x, layout)


def load(src: Any, idx: Any, *, layout: Any = None, optimized: bool = True) -> Any:
    """`src[idx]`, in a layout if one is stated. With `optimized` the compiler may refuse a slow load.

    >>> from pellucid._machine.refs.access import new_ref
    >>> load(new_ref(np.arange(3)), slice(1, 3))
    Array([1, 2], dtype=int32)
    """
    x = get(src, idx)
    return x if layout is None else layout_cast(x, layout)


def print_layout(fmt: str, x: Any) -> None:
    """Ask the compiler of a GPU to print the layout of an array or a reference; elsewhere it prints its type.

    >>> print_layout("x: {}", np.zeros(3, np.float32))
    x: f32[3]
    """
    sys.stdout.write(fmt.format(type_of(x).text()) + "\n")


@dataclass(frozen=True)
class ShapeDtypeStruct:
    """The type of an array in registers: shape, dtype and layout."""

    shape: tuple[int, ...]
    dtype: Any
    layout: Any
