"""Random bits: counter-based generators, and XLA's own."""

from __future__ import annotations

import enum
import math
from typing import Any, NamedTuple

import numpy as np

from pellucid.base import dtypes
from pellucid.base.errors import ArgumentTypeError, ArgumentValueError, DtypeError, ShapeError
from pellucid.base.typing import Ints, Shape
from pellucid.ir.avals import shaped_array
from pellucid.ir.factors import pointwise
from pellucid.ir.primitive import Primitive
from pellucid.ir.traits import Traits
from pellucid.primitives.arithmetic import add
from pellucid.primitives.broadcasting import aligned_for_batch, broadcast_shapes
from pellucid.primitives.counts import threefry_rounds
from pellucid.primitives.creation import checked_shape
from pellucid.primitives.families import INTEGER, constant_like, kind_of, texts
from pellucid.primitives.logical import bitwise_or, bitwise_xor, shift_left, shift_right_logical
from pellucid.primitives.movement import move_axis
from pellucid.primitives.slicing import dynamic_update_index_in_dim, index_in_dim
from pellucid.tracing.trace import bind, bind1

_WORD = np.dtype(np.uint32)

# threefry2x32 -------------------------------------------------------------------------------------


class Threefry2x32(Primitive[Any]):
    """Two words of key and two words of counter give two words of random bits, element by element."""

    name = "threefry2x32"
    traits = Traits(kind="random", flops=threefry_rounds, returns_list=True)

    def abstract_eval(self, avals, params):
        if len(avals) != 4 or any(a.dtype != _WORD for a in avals):
            raise DtypeError(
                "threefry2x32 needs two words of key and two of counter, all uint32.",
                got=texts("operand", avals),
            )
        shape = broadcast_shapes(*(a.shape for a in avals))
        if any(a.ndim not in (0, len(shape)) for a in avals):
            raise ShapeError(
                "threefry2x32 needs operands of one rank, or scalars.",
                got=texts("operand", avals),
            )
        return [shaped_array(shape, _WORD)] * 2

    def factors(self, avals, results, params):
        return pointwise(avals, results)

    def batch(self, axis, operands, dims, params):
        aligned, dim = aligned_for_batch(axis, operands, dims)
        return bind(self, *aligned), [dim, dim]

    def lower(self, ctx, operands, params):
        return ctx.from_python(_threefry2x32, operands)


threefry2x32_p = Threefry2x32()

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_KEY_PARITY = 0x1BD11BDA


def _rotated(x: Any, distance: int) -> Any:
    return bitwise_or(
        shift_left(x, constant_like(x, distance)),
        shift_right_logical(x, constant_like(x, 32 - distance)),
    )


def _threefry2x32(k0: Any, k1: Any, x0: Any, x1: Any) -> list[Any]:
    # Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3, SC 2011: Threefry-2x32-20.
    keys = [k0, k1, bitwise_xor(bitwise_xor(k0, k1), constant_like(k0, _KEY_PARITY))]
    x0, x1 = add(x0, k0), add(x1, k1)
    for i in range(5):
        for distance in _ROTATIONS[i % 2]:
            x0 = add(x0, x1)
            x1 = bitwise_xor(x0, _rotated(x1, distance))
        x0 = add(x0, keys[(i + 1) % 3])
        x1 = add(x1, add(keys[(i + 2) % 3], constant_like(k1, i + 1)))
    return [x0, x1]


def threefry2x32(key_high: Any, key_low: Any, count_high: Any, count_low: Any) -> list[Any]:
    """Two uint32 arrays of random bits from a key of two words and counters of two words.

    A bijection of the counters for each key: equal counters give equal bits, different ones unrelated bits.
    Source: Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3, SC 2011 (Threefry-2x32-20).

    >>> threefry2x32(*[np.uint32(0)] * 4)
    [Array(1797259609, dtype=uint32), Array(2579123966, dtype=uint32)]
    """
    return bind(threefry2x32_p, key_high, key_low, count_high, count_low)


# iota_2x32_shape ----------------------------------------------------------------------------------


class Iota2x32ShapeParams(NamedTuple):
    shape: Shape


class Iota2x32Shape(Primitive[Iota2x32ShapeParams]):
    """Positions in row-major order as numbers of 64 bits, in two words, also where 64-bit types are off."""

    name = "iota_2x32_shape"
    traits = Traits(kind="creation", flops=0.0)

    def abstract_eval(self, avals, params):
        return [shaped_array(params.shape, _WORD)] * 2

    def lower(self, ctx, operands, params):
        shape, words = params.shape, ctx.avals_out[0]
        wide = shaped_array(shape, np.dtype(np.uint64))
        # A sum over dimensions rather than a reshaped iota: each device can compute its part alone.
        position = ctx.full(wide, 0)
        for d in range(len(shape)):
            along = ctx.op1("stablehlo.iota", wide, [], {"iota_dimension": d})
            stride = ctx.full(wide, math.prod(shape[d + 1 :]))
            step = ctx.op1("stablehlo.multiply", wide, [along, stride])
            position = ctx.op1("stablehlo.add", wide, [position, step])
        high = ctx.op1("stablehlo.shift_right_logical", wide, [position, ctx.full(wide, 32)])
        return [ctx.convert(high, words), ctx.convert(position, words)]


iota_2x32_shape_p = Iota2x32Shape()


def iota_2x32_shape(shape: Ints) -> list[Any]:
    """Upper and lower words of the positions of the elements of an array of `shape`: counters for Threefry.

    >>> iota_2x32_shape((3,))
    [Array([0, 0, 0], dtype=uint32), Array([0, 1, 2], dtype=uint32)]
    """
    return bind(
        iota_2x32_shape_p, params=Iota2x32ShapeParams(checked_shape(shape, "iota_2x32_shape"))
    )


# XLA's generators ---------------------------------------------------------------------------------


class RandomAlgorithm(enum.IntEnum):
    """The generators of `rng_bit_generator`; the default one is chosen by the platform."""

    RNG_DEFAULT = 0
    RNG_THREE_FRY = 1
    RNG_PHILOX = 2

    def __str__(self) -> str:
        return self.name


class RngBitGeneratorParams(NamedTuple):
    shape: Shape
    dtype: Any
    algorithm: RandomAlgorithm
    out_sharding: Any


class RngBitGenerator(Primitive[RngBitGeneratorParams]):
    name = "rng_bit_generator"
    traits = Traits(kind="random", flops=threefry_rounds, returns_list=True)

    def abstract_eval(self, avals, params):
        [key] = avals
        if (key.dtype.name, key.shape) not in (("uint32", (4,)), ("uint64", (2,))):
            raise ArgumentTypeError(
                "rng_bit_generator needs a key of type uint32[4] or uint64[2].",
                got=f"key: {key.text()}",
                do="`random` makes keys of other generators; this one takes raw words.",
            )
        if kind_of(params.dtype) != "unsigned" or dtypes.itemsize_bits(params.dtype) < 8:
            raise DtypeError(
                "rng_bit_generator gives unsigned integers.",
                got=f"dtype: {params.dtype}",
                do="Ask for uint8, uint16, uint32 or uint64.",
            )
        return [key, shaped_array(params.shape, params.dtype)]

    def batch(self, axis, operands, dims, params):
        # As in the reference, one generator, that of the first key, gives the bits of the whole batch.
        keys = move_axis(operands[0], dims[0], 0)
        first = index_in_dim(keys, 0, keepdims=False)
        batched = params._replace(shape=(axis.size, *params.shape))
        following, bits = bind(self, first, params=batched)
        return [dynamic_update_index_in_dim(keys, following, 0, 0), bits], [0, 0]

    def lower(self, ctx, operands, params):
        [key], (key_aval, bits_aval) = operands, ctx.avals_out
        state = shaped_array((2,), np.dtype(np.uint64))
        pairs = shaped_array((2, 2), _WORD)
        if key_aval.dtype == _WORD:
            key = ctx.op1("stablehlo.bitcast_convert", state, [ctx.reshape(key, pairs)])
        name = params.algorithm.name.removeprefix("RNG_")
        attributes = {"rng_algorithm": ctx.enum("rng_algorithm", name)}
        generated = ctx.op(
            "stablehlo.rng_bit_generator", ctx.types([state, bits_aval]), [key], attributes
        )
        following, bits = generated.results
        if key_aval.dtype == _WORD:
            following = ctx.reshape(
                ctx.op1("stablehlo.bitcast_convert", pairs, [following]), key_aval
            )
        return [following, bits]


rng_bit_generator_p = RngBitGenerator()


def rng_bit_generator(
    key: Any,
    shape: Ints,
    dtype: Any = np.uint32,
    algorithm: RandomAlgorithm = RandomAlgorithm.RNG_DEFAULT,
    *,
    out_sharding: Any = None,
) -> list[Any]:
    """[the next key, random bits of `shape` and unsigned `dtype`] by a generator of the compiler.

    `key` is uint32[4] or uint64[2]. The bits depend on the platform and the compiler's release, and the
    default algorithm on the platform. Source: StableHLO specification, `rng_bit_generator`.

    >>> rng_bit_generator(np.zeros(4, np.uint32), (2, 3))[1].shape
    (2, 3)
    """
    sizes = checked_shape(shape, "rng_bit_generator")
    dtype = dtypes.check_user_dtype(dtype, "rng_bit_generator")
    try:
        algorithm = RandomAlgorithm(algorithm)
    except ValueError:
        raise ArgumentValueError(
            "rng_bit_generator has no such algorithm.",
            got=f"algorithm: {algorithm!r}",
            do="Use a member of `lax.RandomAlgorithm`.",
        ) from None
    return bind(
        rng_bit_generator_p,
        key,
        params=RngBitGeneratorParams(sizes, dtype, algorithm, out_sharding),
    )


class RngUniformParams(NamedTuple):
    shape: Shape


class RngUniform(Primitive[RngUniformParams]):
    name = "rng_uniform"
    traits = Traits(kind="random", flops=threefry_rounds, makes_nan=True)

    def abstract_eval(self, avals, params):
        a, b = avals
        got = [f"a: {a.text()}", f"b: {b.text()}"]
        if a.dtype != b.dtype or kind_of(a.dtype) not in INTEGER | {"floating"}:
            raise DtypeError("rng_uniform needs bounds of one integer or floating dtype.", got=got)
        if a.shape != () or b.shape != ():
            raise ShapeError("rng_uniform needs scalar bounds.", got=got)
        return [shaped_array(params.shape, a.dtype, a.weak_type and b.weak_type)]

    def lower(self, ctx, operands, params):
        shape = ctx.constant(np.asarray(params.shape, np.int64))
        attributes = {"rng_distribution": ctx.enum("rng_distribution", "UNIFORM")}
        return [ctx.op1("stablehlo.rng", ctx.avals_out[0], [*operands, shape], attributes)]


rng_uniform_p = RngUniform()


def rng_uniform(a: Any, b: Any, shape: Ints) -> Any:
    """Random numbers of `shape` between scalars `a` (included) and `b` (excluded), by the compiler's generator.

    It has a state of its own: no key, no promise that a run can be repeated; `random.uniform` has both.
    Source: StableHLO specification, `rng`.

    >>> rng_uniform(np.float32(0), np.float32(1), (2, 3)).shape
    (2, 3)
    """
    return bind1(rng_uniform_p, a, b, params=RngUniformParams(checked_shape(shape, "rng_uniform")))


__all__ = [
    "RandomAlgorithm", "iota_2x32_shape", "iota_2x32_shape_p", "rng_bit_generator", "rng_bit_generator_p",
    "rng_uniform", "rng_uniform_p", "threefry2x32", "threefry2x32_p",
]  # fmt: skip
