"""Memories of a GPU as types of references: shared memory, registers, barriers, accumulators of matrix products.

The type of a reference in a kernel has such a type as its `kind`, so that operations know where it lies and how.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn

import numpy as np

from pellucid._machine.base import (
    ArgumentTypeError,
    ArgumentValueError,
    UnsupportedError,
    dtypes,
    ints,
)
from pellucid._machine.ir import AbstractRef, ShapedArray, abstract_ref, shaped_array
from pellucid._machine.tracing import is_reference, type_of
from pellucid.kernels import specs
from pellucid.kernels.specs import MemoryRef, Semaphores, Space, sizes_of

from .params import CompilerParams
from .transforms import Transform, check_transforms

_INT32 = np.dtype(np.int32)


class MemorySpace(Space):
    """Memory spaces of GPUs: that of the device, and of a block its shared memory and its registers.

    >>> MemorySpace.SMEM((8, 128), "float32").shape
    (8, 128)
    """

    GMEM = "gmem"
    SMEM = "smem"
    TMEM = "tmem"
    REGS = "regs"

    def __call__(
        self,
        shape: Sequence[int],
        dtype: Any,
        *,
        transforms: Sequence[Any] = (),
        packed: bool | None = None,
        collective: bool | None = None,
        layout: Any = None,
    ) -> MemoryRef:
        """Scratch of `shape` and `dtype` in this memory, which lies in it as `transforms` state."""
        if self is MemorySpace.TMEM:
            refuse_blackwell("TMEM")
        if packed is not None or collective is not None or layout is not None:
            raise ArgumentValueError(
                f"{self.name}: `packed`, `collective` and `layout` are for tensor memory, TMEM.",
                got=f"packed={packed}, collective={collective}, layout={layout!r:.40}",
            )
        aval = shaped_array(sizes_of(self.name, shape), dtypes.check_user_dtype(dtype, "scratch"))
        return Memory(aval, self, check_transforms(self.name, transforms))


def refuse_blackwell(name: str) -> NoReturn:
    """Raise UnsupportedError for a part of GPUs of the generation of Blackwell."""
    raise UnsupportedError(
        f"`mosaic_gpu.{name}` is of Blackwell GPUs, which pellucid has no kernels for.",
        do="Write the kernel for Hopper: `wgmma` with an accumulator `ACC`, operands in shared memory, SMEM.",
    )


@dataclass(frozen=True)
class Memory(MemoryRef):
    """A type of scratch: an array in a memory of GPUs, which lies in it as `transforms` state."""

    transforms: tuple[Transform, ...] = ()
    joins_views: ClassVar[bool] = True
    """A part of a part is one index, so that threads which write several parts of a part write no more than these."""

    def get_ref_aval(self) -> AbstractRef:
        """The type of a reference to the array."""
        return abstract_ref(self.inner_aval, self)

    __lt__ = MemoryRef.__lt__

    def __str__(self) -> str:
        return str(self.memory_space)


@dataclass(frozen=True)
class RefType:
    """How a reference lies in shared memory."""

    transforms: tuple[Any, ...] = ()


# Barriers -----------------------------------------------------------------------------------------------------


def _number(caller: str, name: str, n: Any) -> int:
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 1:
        raise ArgumentValueError(
            f"{caller}: `{name}` must be a number, from 1 on.", got=f"got {n!r:.40}"
        )
    return int(n)


@dataclass(frozen=True, kw_only=True)
class Barrier:
    """A type of scratch: `num_barriers` barriers, of which each completes a phase when it has `num_arrivals` arrivals.

    A copy to shared memory arrives once, and so does `barrier_arrive`. `barrier_wait` waits for the phase after the one that this thread waited
    for last. With several barriers, `barrier.at[i]` is one; `num_barriers` may be a shape. `orders_tensor_core` is for Blackwell.

    >>> Barrier(num_barriers=2).shape
    (2,)
    """

    num_arrivals: int = 1
    num_barriers: int | Sequence[int] = 1
    orders_tensor_core: bool = False
    begins_at_zero: ClassVar[bool] = True

    def __post_init__(self) -> None:
        caller = type(self).__name__
        object.__setattr__(self, "num_arrivals", _number(caller, "num_arrivals", self.num_arrivals))
        n = self.num_barriers
        sizes = tuple(n) if isinstance(n, (tuple, list)) else (n,)
        sizes = tuple([_number(caller, "num_barriers", size) for size in sizes])
        object.__setattr__(
            self, "num_barriers", sizes if isinstance(n, (tuple, list)) else sizes[0]
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array of barriers."""
        n = self.num_barriers
        return tuple(n) if isinstance(n, (tuple, list)) else (n,)  # pyright: ignore[reportReturnType]

    @property
    def dtype(self) -> np.dtype:
        """The dtype that counts arrivals."""
        return _INT32

    def get_array_aval(self) -> ShapedArray:
        """The type of the array of barriers."""
        return shaped_array(self.shape, _INT32)

    def get_ref_aval(self) -> AbstractRef:
        """The type of a reference to them."""
        return abstract_ref(self.get_array_aval(), self)

    def __str__(self) -> str:
        return "barrier"


@dataclass(frozen=True, kw_only=True)
class ClusterBarrier(Barrier):
    """Barriers at which the blocks of a cluster meet. Raises: UnsupportedError, as clusters aren't built.

    >>> ClusterBarrier(collective_axes=("x",))
    Traceback (most recent call last):
        ...
    pellucid.errors.UnsupportedError: ClusterBarrier: blocks of a cluster can't reach each other.
    ...
    """

    collective_axes: Sequence[Any]
    leader_tracked: bool = False

    def __post_init__(self) -> None:
        refuse_clusters("ClusterBarrier")


def refuse_clusters(name: str) -> NoReturn:
    """Raise UnsupportedError for what blocks of a cluster do together."""
    raise UnsupportedError(
        f"{name}: blocks of a cluster can't reach each other.",
        do="Let each block copy what it needs from the memory of the device, GMEM.",
    )


# Accumulators -------------------------------------------------------------------------------------------------


_ACCUMULATES = tuple(map(np.dtype, (np.float32, np.float16, np.int32)))


@dataclass(frozen=True, eq=False)
class ACC:
    """A type of scratch: the accumulator of `wgmma`, a matrix in the registers of a warpgroup, which begins at 0.

    `acc[...]` waits for the products that are in flight, and reads it. `ACC.init(array)` is one that begins as an array, for `run_scoped`.

    >>> ACC((64, 128)).dtype
    dtype('float32')
    """

    shape: tuple[int, int]
    dtype: Any = np.float32
    _init: Any = None
    begins_at_zero: ClassVar[bool] = True
    is_of_thread: ClassVar[bool] = True
    """Whether each thread of a block has one of its own."""

    def __post_init__(self) -> None:
        shape = ints(self.shape)
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "dtype", dtypes.check_user_dtype(self.dtype, "ACC"))
        if len(shape) != 2 or shape[0] % 64 or shape[1] % 8 or min(shape) < 1:
            raise ArgumentValueError(
                "ACC: an accumulator is a matrix of a multiple of 64 rows and of 8 columns.",
                got=f"shape {shape}",
            )
        if self.dtype not in _ACCUMULATES:
            raise ArgumentValueError(
                "ACC: an accumulator is of float32, float16 or int32.", got=f"got {self.dtype}"
            )

    def _key(self) -> Any:
        return self.shape, self.dtype, None if self._init is None else id(self._init)

    def __eq__(self, other: object) -> bool:
        return type(other) is ACC and other._key() == self._key()

    def __hash__(self) -> int:
        return hash(self._key())

    @property
    def initial_value(self) -> Any:
        """What it begins as; None for 0."""
        return self._init

    @staticmethod
    def init(array: Any) -> ACC:
        """One that begins as `array`."""
        aval = type_of(array)
        return ACC(aval.shape, aval.dtype, array)

    def get_array_aval(self) -> ShapedArray:
        """The type of the matrix."""
        return shaped_array(self.shape, self.dtype)

    def get_ref_aval(self) -> AbstractRef:
        """The type of a reference to it."""
        return abstract_ref(self.get_array_aval(), self.without_value())

    def without_value(self) -> ACC:
        """The same type of an accumulator that begins at 0."""
        return self if self._init is None else ACC(self.shape, self.dtype)

    def __str__(self) -> str:
        return "accumulator"


# Others -------------------------------------------------------------------------------------------------------


class SemaphoreType(enum.Enum):
    """Types of semaphores, as scratch: they lie in the memory of the device, and begin at 0.

    >>> SemaphoreType.REGULAR((2,)).shape
    (2,)
    """

    REGULAR = "regular"
    BARRIER = "barrier"

    def __call__(self, shape: Sequence[int]) -> MemoryRef:
        """An array of semaphores."""
        return Semaphores(
            shaped_array(sizes_of("SemaphoreType", shape), _INT32), specs.SemaphoreType(self.value)
        )

    @property
    def memory_space(self) -> specs.SemaphoreType:
        """What other kernels call it."""
        return specs.SemaphoreType(self.value)

    @property
    def begins_at_zero(self) -> bool:
        """True: semaphores count from 0."""
        return True

    @property
    def shape(self) -> tuple[int, ...]:
        """That of one semaphore."""
        return ()

    @property
    def dtype(self) -> np.dtype:
        """The dtype that counts."""
        return _INT32

    def get_array_aval(self) -> ShapedArray:
        """The type of one semaphore."""
        return shaped_array((), _INT32)

    def get_ref_aval(self) -> AbstractRef:
        """The type of a reference to one semaphore."""
        return self(()).get_ref_aval()


def kind_of(ref: Any) -> Any:
    """The type of memory that a reference, or a part of one, lies in: `Memory`, `Barrier`, `ACC`; None for the memory of the device or unknown."""
    base = getattr(ref, "ref", ref)
    return getattr(getattr(base, "aval", None), "kind", None)


def kind_of_block(params: Any, spec: Any, aval: ShapedArray) -> Memory | None:
    """The kind of the reference to a block: shared memory in kernels for GPUs, unless its spec states the memory of the device."""
    if not isinstance(params, CompilerParams) or spec.memory_space not in (None, MemorySpace.SMEM):
        return None
    return Memory(aval, MemorySpace.SMEM, tuple(getattr(spec, "transforms", ())))


def size_in_bytes(kind: Any) -> int:
    """Bytes of shared memory that scratch of this type takes."""
    if isinstance(kind, Barrier):
        return 8 * math.prod(kind.shape)
    if isinstance(kind, Memory) and kind.memory_space is MemorySpace.SMEM:
        return math.prod(kind.shape) * np.dtype(kind.dtype).itemsize
    return 0


def text_of(x: Any) -> str:
    """What messages call an argument that should be a reference: its type and where it lies; anything else as it is."""
    base, kind = getattr(x, "ref", x), kind_of(x)
    if not hasattr(x, "shape") or not hasattr(base, "aval"):
        return f"{type(x).__name__} of shape {x.shape}" if hasattr(x, "shape") else f"{x!r:.80}"
    part = "" if base is x else f"a part of shape {list(x.shape)} of "
    return part + base.aval.text() + ("" if kind is None else f" in {kind}")


def check_reference(caller: str, ref: Any) -> None:
    """Raise ArgumentTypeError for what is neither a reference nor a part of one."""
    if not is_reference(getattr(ref, "ref", ref)):
        raise ArgumentTypeError(
            f"{caller} takes a reference, or a part of one.",
            got=f"got {text_of(ref)}",
            do="Pass `ref` or `ref.at[index]`; `ref[index]` is a value.",
        )


def check_kind(caller: str, ref: Any, kind: type, what: str) -> Any:
    """The type of memory of `ref`. Raises: ArgumentTypeError for another one than `kind`."""
    found = kind_of(ref)
    if not isinstance(found, kind):
        raise ArgumentTypeError(
            f"{caller} takes {what}.",
            got=f"got {text_of(ref)}",
        )
    return found
