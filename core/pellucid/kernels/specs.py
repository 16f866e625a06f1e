"""The user's specification of a kernel's grid: block specs, block dimensions, memory spaces, grid specs, cost
estimates.
"""

from __future__ import annotations

import dataclasses
import enum
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from pellucid._machine.base import ArgumentTypeError, ArgumentValueError, Shape, dtypes
from pellucid._machine.base.dims import Symbol, canonical_shape
from pellucid._machine.base.source import capture, describe
from pellucid._machine.ir import AbstractRef, ShapedArray, abstract_ref, shaped_array

Size: TypeAlias = Any
"""A number of programs along an axis: an int, or a traced integer."""


# Memory -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MemoryRef:
    """A type of scratch: an array of the type `inner_aval` in a memory space."""

    inner_aval: ShapedArray
    memory_space: Any

    @property
    def shape(self) -> Shape:
        """The shape of the array."""
        return self.inner_aval.shape

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the array."""
        return self.inner_aval.dtype

    def get_array_aval(self) -> ShapedArray:
        """The type of the array."""
        return self.inner_aval

    def get_ref_aval(self) -> AbstractRef:
        """The type of a reference to the array."""
        return abstract_ref(self.inner_aval)

    def __lt__(self, other: MemoryRef) -> bool:
        return repr(self) < repr(other)


class Semaphores(MemoryRef):
    """A type of scratch: semaphores, which begin at 0."""


def sizes_of(caller: str, shape: Any) -> tuple[Any, ...]:
    """The sizes of scratch. Raises: ArgumentTypeError for what is no sequence of sizes, ArgumentValueError for sizes below 0."""
    sizes = canonical_shape(shape)
    if any(type(n) is int and n < 0 for n in sizes):
        raise ArgumentValueError(f"{caller}: a shape has sizes from 0 on.", got=f"shape {sizes}")
    return sizes


class Space(enum.Enum):
    """Base class of enumerations of memory spaces. A space called with a shape and a dtype is a type of scratch."""

    def __str__(self) -> str:
        return self.value

    def __call__(self, shape: Sequence[int], dtype: Any) -> MemoryRef:
        """Scratch of `shape` and `dtype` in this memory."""
        return MemoryRef(
            shaped_array(sizes_of(self.name, shape), dtypes.check_user_dtype(dtype, "scratch")),
            self,
        )

    def from_type(self, type: Any) -> MemoryRef:
        """Scratch of the shape and dtype of `type` in this memory."""
        return self(type.shape, type.dtype)


_SEMAPHORES = {
    "regular": np.dtype(np.int32),
    "barrier": np.dtype(np.int32),
    "dma": np.dtype(np.int16),
}


class SemaphoreType(enum.Enum):
    """Types of semaphores, as scratch: one, or with a shape an array of them. They begin at 0.

    >>> SemaphoreType.DMA((2,)).shape
    (2,)
    """

    REGULAR = "regular"
    DMA = "dma"
    BARRIER = "barrier"

    def __call__(self, shape: Sequence[int]) -> MemoryRef:
        """An array of semaphores."""
        return Semaphores(shaped_array(sizes_of(self.name, shape), _SEMAPHORES[self.value]), self)

    @property
    def shape(self) -> tuple[int, ...]:
        """That of one semaphore."""
        return ()

    @property
    def dtype(self) -> np.dtype:
        """The dtype that counts."""
        return _SEMAPHORES[self.value]

    def get_array_aval(self) -> Any:
        """The type of one semaphore."""
        return shaped_array((), self.dtype)

    def get_ref_aval(self) -> Any:
        """The type of a reference to one semaphore."""
        return self(()).get_ref_aval()


class MemorySpace(Space):
    """Memory spaces that every device has a meaning for; without one of them all are the same memory.

    >>> MemorySpace.ANY((2, 3), "float32").shape
    (2, 3)
    """

    ANY = "any"
    DEFAULT = "default"
    ERROR = "error"
    INDEX = "index"
    KEY = "key"
    HOST = "host"


ANY = MemorySpace.ANY
HOST = MemorySpace.HOST


def begins_at_zero(x: Any) -> bool:
    """Whether scratch of this type begins at 0, as semaphores do."""
    return isinstance(x, (Semaphores, SemaphoreType)) or getattr(x, "begins_at_zero", False)


def kind_of_scratch(x: Any) -> Any:
    """The kind of references to scratch of this type: the type itself, where it says more than shape and dtype; else None."""
    make = getattr(x, "get_ref_aval", None)
    return None if make is None else make().kind


@dataclass(frozen=True)
class SharedScratch:
    """The memory space of scratch that programs along `axes` have in common."""

    space: Any
    axes: tuple[Any, ...]

    def __str__(self) -> str:
        return str(self.space)


def space_of(x: Any) -> Any:
    """The memory space of scratch of this type: a `Space`, a `SemaphoreType`, a type that says more, or None if it states none."""
    if isinstance(x, SemaphoreType):
        return x
    return kind_of_scratch(x) or getattr(x, "memory_space", None)


class RevisitMode(enum.Enum):
    """Whether a block of a result may be visited again at once only, or at any time."""

    IMMEDIATE = "immediate"
    ANY = "any"


@dataclass(frozen=True)
class Buffered:
    """Number of buffers that a pipeline has for a block; `revisit` specifies when a block may be visited again."""

    buffer_count: int
    use_lookahead: bool = False
    revisit: RevisitMode | None = None


class DeviceIdType(enum.Enum):
    """How another device is named: by its position in the mesh, or by its number."""

    MESH = "mesh"
    LOGICAL = "logical"


# Blocks -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Blocked:
    """A dimension of a block: the index map returns the number of the block, with `block_size` elements per block."""

    block_size: Any


@dataclass(frozen=True)
class Element:
    """A dimension of a block: the index map returns the index of its first element.

    `padding` are numbers of elements without a value that stand before and after the array; positions count from the
    first of them.
    """

    block_size: int
    padding: tuple[int, int] = (0, 0)

    def __repr__(self) -> str:
        padding = "" if self.padding == (0, 0) else f", padding={self.padding}"
        return f"Element({self.block_size}{padding})"


@dataclass(frozen=True)
class Squeezed:
    """A dimension of one element, which the reference in the kernel doesn't have."""


@dataclass(frozen=True)
class BoundedSlice:
    """A dimension of a block whose index map gives `ds(start, size)`, with a size of at most `block_size`."""

    block_size: int


@dataclass(frozen=True)
class Indirect:
    """A dimension of a block whose index map gives the positions of its elements, `block_size` of them: an array of integers, or a
    reference that holds them.

    Inputs are gathered, and results scattered; where positions are equal, a result keeps one of the elements.
    """

    block_size: int


squeezed = Squeezed()
BlockDim = Element | Squeezed | Blocked | BoundedSlice | Indirect


class NoBlockSpec:
    """Class of `no_block_spec`: no spec is given, so that the kernel sees whole arrays."""

    def __repr__(self) -> str:
        return "NoBlockSpec"


no_block_spec: Any = NoBlockSpec()


@dataclass(init=False, eq=False)
class BlockSpec:
    """Which block of an array each program of a grid sees.

    `index_map` gets the position in the grid and gives, for each dimension of the array, the number of the block; `None`
    stands for zeros. An entry of `block_shape` is a size, `None` for a dimension that the kernel doesn't see, or one of
    `Element`, `Squeezed`, `BoundedSlice`, `Indirect`. Without a `block_shape` the block is the array.

    >>> spec = BlockSpec((8, None), lambda i, j: (i, j))
    >>> spec.block_shape
    (8, None)
    """

    block_shape: Sequence[Any] | None = None
    index_map: Callable[..., Any] | None = None
    pipeline_mode: Buffered | None = None
    memory_space: Any = None

    def __init__(
        self,
        block_shape: Sequence[Any] | None = None,
        index_map: Callable[..., Any] | None = None,
        pipeline_mode: Buffered | None = None,
        *,
        memory_space: Any = None,
    ) -> None:
        self.block_shape = None if block_shape is None else tuple(block_shape)
        self.index_map, self.pipeline_mode = index_map, pipeline_mode
        self.memory_space = memory_space
        self._source = capture()

    def _fields(self) -> tuple[Any, ...]:
        return self.block_shape, self.index_map, self.pipeline_mode, self.memory_space

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BlockSpec) and self._fields() == other._fields()

    __hash__ = None  # pyright: ignore[reportAssignmentType] equal ones may change

    def replace(self, **changes: Any) -> BlockSpec:
        """This spec with some fields changed."""
        new = dataclasses.replace(self, **changes)
        new._source = self._source
        return new

    @property
    def source(self) -> Any:
        """Where the user made it."""
        return self._source

    @property
    def line(self) -> str | None:
        """The user's line that made it, for messages."""
        return describe(self._source)


whole = BlockSpec()
"""The spec of arrays without one, which is no line of the user's."""
outside = BlockSpec(memory_space=ANY)
"""The spec of references from outside, which programs see themselves."""
for _spec in (whole, outside):
    _spec._source = None  # pyright: ignore[reportPrivateUsage]  # of a class of this module


def block_dims(name: str, spec: BlockSpec, shape: Shape) -> tuple[Any, ...]:
    """For each dimension of an array of `shape` that of its block.

    Raises: ArgumentValueError for another number of dimensions and for sizes that are none.
    """
    if spec.block_shape is None:
        return tuple([Blocked(n) for n in shape])
    if len(spec.block_shape) != len(shape):
        raise ArgumentValueError(
            f"{name}: a block has as many dimensions as its array.",
            got=f"block {spec.block_shape}, array of shape {shape}",
            where=spec.line,
            do="A dimension that the kernel shall not see is None.",
        )
    dims = []
    for dim in spec.block_shape:
        if dim is None:
            dim = squeezed
        elif isinstance(dim, (int, np.integer)) and not isinstance(dim, bool):
            dim = Blocked(int(dim))
        elif isinstance(dim, Symbol):
            dim = Blocked(dim)
        if not isinstance(dim, BlockDim) or is_negative(size_of(dim)):
            raise ArgumentValueError(
                f"{name}: a dimension of a block is a size, None, Element, Squeezed, BoundedSlice or Indirect; others are no sizes.",
                got=f"{dim!r} in block {spec.block_shape}",
                where=spec.line,
            )
        dims.append(dim)
    return tuple(dims)


def is_negative(n: Any) -> bool:
    """Whether a size is known to be negative."""
    return not isinstance(n, Symbol) and n < 0


def size_of(dim: Any) -> int:
    """Number of elements along a dimension of a block."""
    return 1 if type(dim) is Squeezed else dim.block_size


def step_of(dim: Any) -> int:
    """Number of elements between blocks whose indices differ by one."""
    return dim.block_size if type(dim) is Blocked else 1


def padding_of(dim: Any) -> tuple[int, int]:
    """Numbers of elements without a value before and after the array."""
    return dim.padding if isinstance(dim, Element) else (0, 0)


# Grids --------------------------------------------------------------------------------------------------


@dataclass(init=False)
class GridSpec:
    """A grid with the specs of the arrays and the types of the scratch.

    >>> GridSpec(grid=4).grid
    (4,)
    """

    grid: tuple[Any, ...]
    grid_names: tuple[Any, ...] | None
    in_specs: Any
    out_specs: Any
    scratch_shapes: Any
    num_scalar_prefetch = 0

    def __init__(
        self,
        grid: Any = (),
        in_specs: Any = no_block_spec,
        out_specs: Any = no_block_spec,
        scratch_shapes: Any = (),
    ) -> None:
        sizes = tuple(grid) if isinstance(grid, (tuple, list)) else (grid,)
        named = [isinstance(size, (tuple, list)) for size in sizes]
        if any(named) and not all(named):
            raise ArgumentTypeError(
                "a grid has names for all of its axes, or for none.", got=f"grid: {grid!r:.60}"
            )
        self.grid = tuple([size[1] for size in sizes]) if any(named) else sizes
        self.grid_names = tuple([size[0] for size in sizes]) if any(named) else None
        self.in_specs, self.out_specs = in_specs, out_specs
        self.scratch_shapes = scratch_shapes


class PrefetchScalarGridSpec(GridSpec):
    """A grid spec whose index maps also get the first `num_scalar_prefetch` arguments, as references.

    >>> PrefetchScalarGridSpec(num_scalar_prefetch=1, grid=(4,)).num_scalar_prefetch
    1
    """

    def __init__(
        self,
        num_scalar_prefetch: int,
        grid: Any = (),
        in_specs: Any = no_block_spec,
        out_specs: Any = no_block_spec,
        scratch_shapes: Any = (),
    ) -> None:
        super().__init__(grid, in_specs, out_specs, scratch_shapes)
        self.num_scalar_prefetch = num_scalar_prefetch


@dataclass(frozen=True)
class CostEstimate:
    """What one call of a kernel costs.

    >>> print(CostEstimate(2, 0, 12).to_json().decode())
    {"flops": 2, "transcendentals": 0, "bytes_accessed": 12}
    """

    flops: int
    transcendentals: int
    bytes_accessed: int
    remote_bytes_transferred: int = 0

    def to_json(self) -> bytes:
        """The estimate as JSON; bytes between devices only where there are some."""
        fields = dataclasses.asdict(self)
        if not self.remote_bytes_transferred:
            del fields["remote_bytes_transferred"]
        return json.dumps(fields).encode("ascii")


class CompilerParams:
    """Parameters for compilers of some devices. `dimension_semantics` says which axes may run in any order.

    `disable_bounds_checks=True` states that no block that data choose lies outside of its array, and that no such block of a result is left and visited
    again: nothing is raised then when the program runs. A block outside is undefined where it is read, and dropped where it is written.

    >>> CompilerParams(dimension_semantics=("parallel", "arbitrary")).dimension_semantics
    ('parallel', 'arbitrary')
    """

    dimension_semantics: Sequence[Any] | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args:
            raise ArgumentTypeError(
                "CompilerParams takes keyword arguments.", got=f"got {args!r:.60}"
            )
        vars(self).update(kwargs)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    __hash__ = None  # pyright: ignore[reportAssignmentType] equal ones may change

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in vars(self).items())})"


def is_parallel(semantics: Any) -> bool:
    """Whether an entry of `dimension_semantics` allows the programs of an axis to run in any order."""
    return str(getattr(semantics, "value", semantics)).lower() in (
        "parallel",
        "core_parallel",
        "subcore_parallel",
    )
