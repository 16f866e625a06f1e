"""Random bits by generators of XLA."""

from __future__ import annotations

import enum
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import (
    ArgumentTypeError,
    ArgumentValueError,
    ArrayLike,
    DtypeError,
    DTypeLike,
    Ints,
    Shape,
    ShapeError,
    dtypes,
    is_static,
)
from pellucid._machine.base.dtypes import ExtendedDType
from pellucid._machine.ir import Primitive, Results, Traits, shaped_array
from pellucid._machine.sharding import PartitionSpec, Sharding
from pellucid._machine.tracing import bind, bind1
from pellucid._machine.xla import Array

from .counts import THREEFRY_FLOPS
from .creation import checked_shape
from .families import INTEGER, kind_of
from .movement import move_axis
from .slicing import dynamic_update_index_in_dim, index_in_dim

_WORD = np.dtype(np.uint32)


class RandomAlgorithm(enum.IntEnum):
    """The generators of `rng_bit_generator`; the default one is chosen by the platform.

    >>> state = np.zeros(4, np.uint32)
    >>> lax.rng_bit_generator(state, (2,), algorithm=lax.RandomAlgorithm.RNG_PHILOX)[1]
    Array([1713891541, 3781805453], dtype=uint32)
    """

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
    traits = Traits(kind="random", flops=THREEFRY_FLOPS, returns_list=True)

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
                "rng_bit_generator needs an unsigned integer dtype.",
                got=f"dtype: {params.dtype}",
                do="Ask for uint8, uint16, uint32 or uint64.",
            )
        return [key, shaped_array(params.shape, params.dtype)]

    def batch(self, axis, operands, dims, params):
        # As in the reference, the generator of the first key draws the bits of the whole batch.
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
        algorithm = params.algorithm.name.removeprefix("RNG_")
        attributes = {"rng_algorithm": ctx.enum("rng_algorithm", algorithm)}
        name = "stablehlo.rng_bit_generator"
        operands = [key]
        if not is_static(params.shape):
            operands.append(ctx.sizes(params.shape))
            attributes["call_target_name"] = "stablehlo.dynamic_rng_bit_generator"
            name = "stablehlo.custom_call"
        generated = ctx.op(name, ctx.types([state, bits_aval]), operands, attributes)
        following, bits = generated.results
        if key_aval.dtype == _WORD:
            following = ctx.reshape(
                ctx.op1("stablehlo.bitcast_convert", pairs, [following]), key_aval
            )
        return [following, bits]


rng_bit_generator_p = RngBitGenerator()


def rng_bit_generator(
    key: ArrayLike,
    shape: Ints,
    dtype: DTypeLike | ExtendedDType = np.uint32,
    algorithm: RandomAlgorithm = RandomAlgorithm.RNG_DEFAULT,
    *,
    out_sharding: Sharding | PartitionSpec | None = None,
) -> Results:
    """(the next key, random bits of `shape` and unsigned `dtype`) by a generator of the compiler.

    `key` is uint32[4] or uint64[2]. The bits depend on the platform and the compiler's release, and the
    default algorithm on the platform. Source: StableHLO specification, `rng_bit_generator`.

    Raises: ArgumentTypeError for another key, ShapeError for a `shape` of anything but integers from 0, DtypeError for
    another dtype.

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
    params = RngBitGeneratorParams(sizes, dtype, algorithm, out_sharding)
    return tuple(bind(rng_bit_generator_p, key, params=params))


class RngUniformParams(NamedTuple):
    shape: Shape


class RngUniform(Primitive[RngUniformParams]):
    name = "rng_uniform"
    traits = Traits(kind="random", flops=THREEFRY_FLOPS, makes_nan=True)

    def abstract_eval(self, avals, params):
        a, b = avals
        got = [f"a: {a.text()}", f"b: {b.text()}"]
        if a.dtype != b.dtype or kind_of(a.dtype) not in INTEGER | {"floating"}:
            raise DtypeError("rng_uniform needs bounds of one integer or floating dtype.", got=got)
        if a.shape != () or b.shape != ():
            raise ShapeError("rng_uniform needs scalar bounds.", got=got)
        return [shaped_array(params.shape, a.dtype, a.weak_type and b.weak_type)]

    def lower(self, ctx, operands, params):
        shape = ctx.convert(
            ctx.sizes(params.shape), shaped_array((len(params.shape),), np.dtype(np.int64))
        )
        attributes = {"rng_distribution": ctx.enum("rng_distribution", "UNIFORM")}
        return [ctx.as_result("stablehlo.rng", [*operands, shape], attributes)]


rng_uniform_p = RngUniform()


def rng_uniform(a: ArrayLike, b: ArrayLike, shape: Ints) -> Array:
    """Random numbers of `shape` between scalars `a` (included) and `b` (excluded), by the compiler's generator.

    It has a state of its own: no key, no promise that a run can be repeated; `random.uniform` has both.

    `a`, `b` and the result have one dtype, integer or floating-point.
    Raises: DtypeError for other or different dtypes, ShapeError for bounds that are no scalars and for a `shape` of
    anything but integers from 0, ArgumentTypeError for lists and strings.
    Source: StableHLO specification, `rng`.

    >>> rng_uniform(np.float32(0), np.float32(1), (2, 3)).shape
    (2, 3)
    """
    return bind1(rng_uniform_p, a, b, params=RngUniformParams(checked_shape(shape, "rng_uniform")))
