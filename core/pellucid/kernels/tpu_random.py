"""Random bits by the generator of a TPU's core, which nothing else has: its bits depend on the chip."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import ArgumentTypeError, UnsupportedError, capture
from pellucid._machine.base.source import describe
from pellucid._machine.ir import Primitive, Shown, Traits, io_effect, shaped_array
from pellucid._machine.primitives.creation import checked_shape
from pellucid._machine.tracing import bind, bind1, type_of

_INT32 = np.dtype(np.int32)


class SeedParams(NamedTuple):
    """The user's line."""

    source: Any


class OfGenerator(Shown, Primitive[Any]):
    """Base class of operations of the generator; they run on TPUs alone."""

    own_effects = frozenset({io_effect})
    unshown = ("source",)
    caller = ""

    def lower(self, ctx, operands, params):
        raise UnsupportedError(
            f"{self.caller}: the generator of a TPU runs on TPUs only.",
            where=describe(params.source),
            do="Pass random bits as an input: `random.bits(key, shape)`.",
        )


class PrngSeed(OfGenerator):
    """Sets the state of the generator."""

    name = "prng_seed"
    caller = "prng_seed"
    traits = Traits(kind="random", flops=0.0, returns_list=True)

    def abstract_eval(self, avals, params):
        return []


class BitsParams(NamedTuple):
    """The shape of the bits, and the user's line."""

    shape: tuple[int, ...]
    source: Any


class PrngRandomBits(OfGenerator):
    """The next bits of the generator."""

    name = "prng_random_bits"
    caller = "prng_random_bits"
    traits = Traits(kind="random", flops=0.0)

    def abstract_eval(self, avals, params):
        return [shaped_array(params.shape, _INT32)]


prng_seed_p = PrngSeed()
prng_random_bits_p = PrngRandomBits()


def prng_seed(*seeds: Any) -> None:
    """Set the state of the generator of this core, from one integer or several.

    Raises: ArgumentTypeError for none and for other arguments; UnsupportedError, when the kernel is lowered, for anything but a TPU.
    """
    numbers = [np.int32(x) if isinstance(x, int) else x for x in seeds]
    if not numbers or any(type_of(x).shape or type_of(x).dtype.kind not in "iu" for x in numbers):
        raise ArgumentTypeError(
            "prng_seed takes integers, one or several.", got=f"got {seeds!r:.60}"
        )
    bind(prng_seed_p, *numbers, params=SeedParams(capture()))


def prng_random_bits(shape: Any) -> Any:
    """The next bits of the generator of this core, an int32 array.

    Raises: UnsupportedError, when the kernel is lowered, for anything but a TPU.
    """
    sizes = checked_shape(shape, "prng_random_bits")
    return bind1(prng_random_bits_p, params=BitsParams(sizes, capture()))
