"""Generators of random bits, under the names of `jax.extend.random`."""

from pellucid._machine.higher_order.staged_functions import give_stages as _give_stages
from pellucid.random.generators import (
    define_prng_impl,
    rbg_prng_impl,
    threefry_2x32,
    threefry_prng_impl,
    unsafe_rbg_prng_impl,
)
from pellucid.random.keys import random_seed, seed_with_impl
from pellucid.random.threefry import threefry2x32_p

__all__ = [
    "define_prng_impl",
    "random_seed",
    "rbg_prng_impl",
    "seed_with_impl",
    "threefry2x32_p",
    "threefry_2x32",
    "threefry_prng_impl",
    "unsafe_rbg_prng_impl",
]

_give_stages({"threefry_2x32": threefry_2x32})
