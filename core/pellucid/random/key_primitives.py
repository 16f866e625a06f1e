"""Primitives on typed keys; the generator in the dtype of the keys implements them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import DtypeError, ShapeError, cached, dtypes
from pellucid._machine.ir import (
    MOVEMENT,
    NoParams,
    P,
    Primitive,
    Runs,
    Traits,
    Words,
    physical,
    pointwise,
    shaped_array,
    words,
)
from pellucid._machine.primitives.counts import THREEFRY_FLOPS
from pellucid._machine.primitives.families import kind_of
from pellucid._machine.primitives.movement import (
    aligned_for_batch,
    broadcast_shapes,
    broadcast_to,
    move_axis,
)
from pellucid._machine.primitives.staging import optimization_barrier
from pellucid._machine.runtime.extended import of_words
from pellucid._machine.runtime.transfer import from_host
from pellucid._machine.tracing import bind1, type_of
from pellucid._machine.transforms.vmap import vmap
from pellucid._machine.xla.arrays import ARRAY_TYPES, Array, ExtendedArray
from pellucid.numpy.compiled import numpy_function

from .generators import PRNGImpl, unsigned_dtype

Shape = tuple[int, ...]
_WORD = np.dtype(np.uint32)
_RANDOM = Traits(kind="random", flops=THREEFRY_FLOPS)
_USES_KEYS = _RANDOM.replace(keys="used")
_NEW_KEYS = MOVEMENT.replace(linear=None, keys="new")
"""Traits of primitives whose results count as new keys: which key words belong to isn't tracked."""


def map_over_leading(ndim: int, function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` of single elements, for arrays that have `ndim` leading axes."""
    for _ in range(ndim):
        function = vmap(function)
    return function


@cached(1024)
def _rule_on_words(rule: Callable[..., Any], statics: tuple[Any, ...]) -> Callable[..., Any]:
    """`rule(*operands, *statics)` as one compiled call for arrays of words."""

    def on_words(*operands: Any) -> Any:
        return rule(*operands, *statics)

    on_words.__name__ = rule.__name__
    return numpy_function(on_words)


def words_of(x: Array) -> Array:
    """The words of a key array; any other value as an array on a device."""
    if type(x) is ExtendedArray:
        return x.words
    return x if type(x) in ARRAY_TYPES else from_host(x)


class OnKeys(Runs, Primitive[P]):
    """A primitive whose results keep the leading axes of its first operand.

    Outside traces it is one compiled call on the words of keys, which C++ makes without Python.
    """

    traits = _RANDOM

    def generator(self, avals: tuple[Any, ...], params: P) -> PRNGImpl:
        """The generator of the keys in `avals`."""
        return generator_of_aval(self.name, avals[0])

    def on_words(self, *arguments: Any) -> Any:
        """The result's words, given (words of operands…, generator, number of leading axes, params)."""
        raise NotImplementedError(type(self))

    def run(self, operands, params):
        avals = tuple(map(type_of, operands))
        result: Any = self.types(avals, params)[0][0]
        statics = (self.generator(avals, params), self.n_leading(avals, params), params)
        words = _rule_on_words(self.on_words, statics)(*map(words_of, operands))
        return [of_words(result.dtype, words) if kind_of(result.dtype) == "key" else words]

    def n_leading(self, avals: tuple[Any, ...], params: P) -> int:
        """Number of leading axes of the operands."""
        return avals[0].ndim

    def batch(self, axis, operands, dims, params):
        moved = move_axis(operands[0], dims[0], 0)
        return [bind1(self, moved, *operands[1:], params=params)], [0]

    def lower(self, ctx, operands, params):
        avals = ctx.avals_in
        statics = (self.generator(avals, params), self.n_leading(avals, params), params)
        # Varying axes were checked when the program was traced; inside of the lowered function no axis is bound.
        ctx.avals_in = tuple([physical(aval).update(varying=frozenset()) for aval in avals])
        return ctx.from_python(self.on_words, operands, statics)


def generator_of_aval(caller: str, aval: Any) -> PRNGImpl:
    """The generator of keys of type `aval`; raises DtypeError if it is none of keys."""
    implementation = getattr(aval.dtype, "implementation", None)
    if type(implementation) is not PRNGImpl:
        raise DtypeError(f"{caller} needs typed keys.", got=aval.text())
    return implementation


def _within(ndim: int, element: Shape) -> tuple[list[str], list[str]]:
    """Factors of `ndim` leading axes, and of the axes of an element, which can't be sharded."""
    return words(ndim), words(len(element), ndim, "!")


# random_seed ----------------------------------------------------------------------------------------


class RandomSeedParams(NamedTuple):
    impl: PRNGImpl


class RandomSeed(OnKeys[RandomSeedParams]):
    """Makes keys from integers."""

    name = "random_seed"

    def generator(self, avals, params):
        return params.impl

    def abstract_eval(self, avals, params):
        [seeds] = avals
        if kind_of(seeds.dtype) not in ("signed", "unsigned"):
            raise DtypeError("random_seed needs integers.", got=seeds.text())
        return [shaped_array(seeds.shape, params.impl.dtype)]

    def factors(self, avals, results, params):
        return pointwise(avals, results)

    def on_words(self, seeds, generator, ndim, params):
        return map_over_leading(ndim, generator.seed)(seeds)


random_seed_p = RandomSeed()

# random_wrap, random_unwrap, random_clone -----------------------------------------------------------


class RandomWrap(OnKeys[RandomSeedParams]):
    """Makes keys from their words."""

    name = "random_wrap"
    traits = _NEW_KEYS

    def abstract_eval(self, avals, params):
        [x] = avals
        n = len(params.impl.key_shape)
        if x.dtype != _WORD or x.shape[x.ndim - n :] != params.impl.key_shape or x.ndim < n:
            size = ", ".join(map(str, params.impl.key_shape))
            raise DtypeError(
                f"keys of the generator {params.impl.name!r} are made of words: uint32[..., {size}].",
                got=x.text(),
            )
        return [shaped_array(x.shape[: x.ndim - n], params.impl.dtype)]

    def factors(self, avals, results, params):
        leading, element = _within(results[0].ndim, params.impl.key_shape)
        return [[*leading, *element]], [leading]

    def run(self, operands, params):
        self.types((type_of(operands[0]),), params)
        return [of_words(params.impl.dtype, words_of(operands[0]))]

    def lower(self, ctx, operands, params):
        return operands


random_wrap_p = RandomWrap()


class RandomUnwrap(OnKeys[NoParams]):
    """Returns the words of keys."""

    name = "random_unwrap"
    traits = _NEW_KEYS

    def abstract_eval(self, avals, params):
        generator_of_aval(self.name, avals[0])
        return [physical(avals[0])]

    def factors(self, avals, results, params):
        leading, element = _within(avals[0].ndim, generator_of_aval(self.name, avals[0]).key_shape)
        return [leading], [[*leading, *element]]

    def run(self, operands, params):
        self.types((type_of(operands[0]),), params)
        return [words_of(operands[0])]

    def lower(self, ctx, operands, params):
        return operands


random_unwrap_p = RandomUnwrap()


class RandomClone(OnKeys[NoParams]):
    """Returns the same keys, which the check for key reuse counts as new ones."""

    name = "random_clone"
    traits = _NEW_KEYS

    def abstract_eval(self, avals, params):
        generator_of_aval(self.name, avals[0])
        return [avals[0].update(shown_sharding=None)]

    def factors(self, avals, results, params):
        return pointwise(avals, results)

    def run(self, operands, params):
        self.types((type_of(operands[0]),), params)
        return [ExtendedArray(operands[0].aval, operands[0].words)]

    def lower(self, ctx, operands, params):
        return operands


random_clone_p = RandomClone()

# random_split, random_fold_in -----------------------------------------------------------------------


class RandomSplitParams(NamedTuple):
    shape: Shape


class RandomSplit(OnKeys[RandomSplitParams]):
    """Derives an array of keys from each key."""

    name = "random_split"
    traits = _USES_KEYS

    def abstract_eval(self, avals, params):
        [keys] = avals
        generator_of_aval(self.name, keys)
        return [shaped_array((*keys.shape, *params.shape), keys.dtype)]

    def factors(self, avals, results, params):
        return leading_kept(avals[0].ndim, results[0].ndim)

    def on_words(self, keys, generator, ndim, params):
        # Without the barrier, XLA computes the few new keys again in each loop that draws from them, and takes longer to compile.
        return optimization_barrier(
            map_over_leading(ndim, lambda key: generator.split(key, params.shape))(keys)
        )


def leading_kept(ndim: int, result_ndim: int) -> tuple[list[Words], list[Words]]:
    """Factors of an operation whose result has the axes of the operand, then axes within each element."""
    leading = words(ndim)
    return [leading], [[*leading, *["1"] * (result_ndim - ndim)]]


random_split_p = RandomSplit()


class RandomFoldIn(OnKeys[NoParams]):
    """Derives a key from each key and number."""

    name = "random_fold_in"

    def abstract_eval(self, avals, params):
        keys, data = avals
        generator_of_aval(self.name, keys)
        if data.dtype != _WORD:
            raise DtypeError("random_fold_in needs numbers of dtype uint32.", got=data.text())
        if data.ndim not in (0, keys.ndim) and keys.ndim:
            raise ShapeError(
                "random_fold_in needs keys and numbers of one rank, or scalars.",
                got=[keys.text(), data.text()],
            )
        return [shaped_array(broadcast_shapes(keys.shape, data.shape), keys.dtype)]

    def factors(self, avals, results, params):
        return pointwise(avals, results)

    def n_leading(self, avals, params):
        return max(aval.ndim for aval in avals)

    def batch(self, axis, operands, dims, params):
        if dims[1] is None and not type_of(operands[1]).ndim:
            return [bind1(self, *operands, params=params)], [dims[0]]
        aligned, dim = aligned_for_batch(axis, operands, dims)
        return [bind1(self, *aligned, params=params)], [dim]

    def on_words(self, keys, data, generator, ndim, params):
        element = generator.key_shape
        key_aval = type_of(keys)
        # A number shared by all keys isn't batched: what is computed from it mustn't depend on the batch.
        if not type_of(data).ndim:
            function = generator.fold_in
            for _ in range(ndim):
                function = vmap(function, in_axes=(0, None))
            return function(keys, data)
        shape = broadcast_shapes(
            key_aval.shape[: key_aval.ndim - len(element)], type_of(data).shape
        )
        keys, data = broadcast_to(keys, (*shape, *element)), broadcast_to(data, shape)
        return map_over_leading(ndim, generator.fold_in)(keys, data)


random_fold_in_p = RandomFoldIn()

# random_bits ----------------------------------------------------------------------------------------


class RandomBitsParams(NamedTuple):
    bit_width: int
    shape: Shape


class RandomBits(OnKeys[RandomBitsParams]):
    """Draws an array of random bits from each key."""

    name = "random_bits"
    traits = _USES_KEYS

    def abstract_eval(self, avals, params):
        [keys] = avals
        generator_of_aval(self.name, keys)
        return [shaped_array((*keys.shape, *params.shape), unsigned_dtype(params.bit_width))]

    def factors(self, avals, results, params):
        return leading_kept(avals[0].ndim, results[0].ndim)

    def on_words(self, keys, generator, ndim, params):
        bits = map_over_leading(
            ndim, lambda key: generator.random_bits(key, params.bit_width, params.shape)
        )
        return bits(keys)


random_bits_p = RandomBits()


def is_keys(x: Array) -> bool:
    """Whether `x` is an array of typed keys."""
    return isinstance(type_of(x).dtype, dtypes.KeyDType)
