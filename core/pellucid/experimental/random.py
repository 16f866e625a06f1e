"""Random numbers from an object with a state, under the names of `jax.experimental.random`."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any

import pellucid.numpy as jnp
from pellucid import random
from pellucid._machine.base import ArgumentTypeError, ArgumentValueError, public_functions
from pellucid._machine.base.typing import Shape
from pellucid._machine.refs.access import addupdate, new_ref
from pellucid._machine.refs.primitives import Ref
from pellucid._machine.tracing import context
from pellucid.tree_util import register_dataclass


@register_dataclass
@dataclass(frozen=True)
class StatefulPRNG:
    """A generator whose state is a counter in a reference: each draw uses the next key, also within `jit`.

    >>> rng = stateful_rng(0)
    >>> a, b = rng.random(), rng.random()
    >>> bool(a == b), bool(stateful_rng(0).random() == a)
    (False, True)
    """

    _base_key: Any
    _counter: Ref

    def __post_init__(self) -> None:
        if getattr(self._base_key, "dtype", None) == "uint32":
            raise ArgumentTypeError(
                "StatefulPRNG needs a typed key.",
                got="got an untyped key: uint32 words",
                do="Use `random.wrap_key_data`.",
            )

    def key(self, shape: Shape | int = ()) -> Any:
        """A key that no other call gives, or an array of such keys of this shape.

        Raises: EffectsError in a function that is mapped by `vmap` over other arguments: each element of the batch
        would get the same key. Map over `split(n)`. ArgumentValueError for a generator that is split.
        """
        if jnp.ndim(self._base_key):
            raise ArgumentValueError(
                "a generator that was split can't be drawn from.",
                got=f"a generator of shape {jnp.shape(self._base_key)}",
                do="Map over it with `vmap`.",
            )
        count = self._counter[...]
        addupdate(self._counter, ..., 1)
        key = random.fold_in(self._base_key, count)
        return random.split(key, shape) if shape != () else key

    def random(self, size: Shape | int | None = None, dtype: Any = float) -> Any:
        """Numbers from 0 to 1, 1 left out, of shape `size`."""
        return random.uniform(self.key(), _shape(size), dtype)

    def uniform(
        self, low: Any = 0, high: Any = 1, size: Shape | int | None = None, *, dtype: Any = float
    ) -> Any:
        """Uniform numbers from `low` to before `high`."""
        shape = _shape(size, low, high)
        return random.uniform(self.key(), shape, dtype, minval=low, maxval=high)

    def normal(
        self, loc: Any = 0, scale: Any = 1, size: Shape | int | None = None, *, dtype: Any = float
    ) -> Any:
        """Normally distributed numbers of mean `loc` and standard deviation `scale`."""
        shape = _shape(size, loc, scale)
        return loc + scale * random.normal(self.key(), shape, dtype)

    def integers(
        self, low: Any, high: Any = None, size: Shape | int | None = None, *, dtype: Any = int
    ) -> Any:
        """Integers from `low` to before `high`; from 0 to before `low` without `high`."""
        if high is None:
            low, high = 0, low
        return random.randint(self.key(), _shape(size, low, high), low, high, dtype)

    def split(self, num: Shape | int) -> StatefulPRNG:
        """A generator of `num` keys with counters of their own, for `vmap`."""
        keys = random.split(self.key(), num)
        return StatefulPRNG(keys, new_ref(jnp.zeros(keys.shape, int)))

    def spawn(self, n_children: int) -> list[StatefulPRNG]:
        """Generators whose draws are independent of this one's."""
        keys = random.split(self.key(), n_children)
        return [StatefulPRNG(key, new_ref(jnp.zeros((), int))) for key in keys]


def _shape(size: Shape | int | None, *parameters: Any) -> Shape:
    if size is None:
        return jnp.broadcast_shapes(*map(jnp.shape, parameters))
    return (size,) if isinstance(size, int) else tuple(size)


def stateful_rng(seed: Any = None, *, impl: Any = None) -> StatefulPRNG:
    """A generator that begins with the integer `seed`, by default one of the system's.

    Raises: ArgumentTypeError without a seed in a function that is traced, which would always get the same one.

    >>> stateful_rng(0).integers(10, size=3).shape
    (3,)
    """
    if seed is None and not context.trace.is_eager:
        raise ArgumentTypeError(
            "stateful_rng needs a seed in a function that is traced: one of the system's would be part of the program.",
            do="Pass `seed`, or make the generator outside, and pass it as an argument.",
        )
    seed = secrets.randbits(31) if seed is None else seed
    return StatefulPRNG(random.key(seed, impl=impl), new_ref(jnp.zeros((), int)))


__all__ = ["StatefulPRNG", "stateful_rng"]

public_functions(__all__, globals())
