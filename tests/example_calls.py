"""What the programs of `examples/` compile, with the arguments of the first call, and the ways in which tests run it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))


def first_calls(path: Path, n_steps: int) -> list[tuple[Any, tuple[Any, ...]]]:
    """(jitted function, arguments of its first call) of what an example compiles in so many steps."""
    called: dict[Any, tuple[Any, ...]] = {}
    jit = pl.jit

    def noting(function: Any = None, **options: Any) -> Any:
        if function is None:
            return functools.partial(noting, **options)
        jitted = jit(function, **options)

        @functools.wraps(function)
        def call(*args: Any) -> Any:
            # Copies, as a donated argument is gone after the call.
            copied = pl.tree.map(lambda x: x.copy() if isinstance(x, pl.Array) else x, args)
            called.setdefault(jitted, copied)
            return jitted(*args)

        return call

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pl, "jit", noting)
        program: dict[str, Any] = {"__name__": "example"}
        exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), program)
        program["main"](n_steps)
    assert called
    return [*called.items()]


def without_static(jitted: Any, args: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    """The Python function of a jitted one with its static arguments bound, which no tool may trace, and the other arguments."""
    function, static = jitted.__wrapped__, jitted.jitted.spec.static_nums
    if not static:
        return function, args
    places = [i for i in range(len(args)) if i not in static]

    @functools.wraps(function)
    def call(*dynamic: Any) -> Any:
        given = dict(zip(places, dynamic, strict=True))
        return function(*[given.get(i, x) for i, x in enumerate(args)])

    return call, tuple([args[i] for i in places])


def numbers(x: Any) -> np.ndarray:
    """An array's elements; the words of random keys."""
    is_key = isinstance(x, pl.Array) and jnp.issubdtype(x.dtype, pl.dtypes.prng_key)
    return np.asarray(pl.random.key_data(x) if is_key else x)


def outcome(run: Callable[[], Any]) -> tuple[str, list[np.ndarray]]:
    """The name of what a call raises, or its results."""
    try:
        return "", [*map(numbers, pl.tree.leaves(run()))]
    except Exception as error:
        return type(error).__name__, []


def copied(args: Any) -> Any:
    """Arguments whose memory a call may take."""
    return pl.tree.map(lambda x: x.copy() if isinstance(x, pl.Array) else x, args)


def loss_of(function: Any, args: tuple[Any, ...]) -> tuple[Callable[[Any], Any], list[Any]]:
    """The sum of a function's results as a function of the floating-point ones of its arguments, and these."""
    leaves, tree = pl.tree.flatten(args)
    are_floats = [jnp.issubdtype(jnp.result_type(x), np.floating) for x in leaves]

    def loss(floats: Any) -> Any:
        rest = iter(floats)
        given = [
            next(rest) if is_float else x for x, is_float in zip(leaves, are_floats, strict=True)
        ]
        results = pl.tree.leaves(function(*tree.unflatten(given)))
        return sum(x.sum() for x in results if jnp.issubdtype(x.dtype, np.floating))

    return loss, [x for x, is_float in zip(leaves, are_floats, strict=True) if is_float]


def _grad(function: Any, args: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    loss, floats = loss_of(pl.jit(function), args)
    return pl.grad(loss), (floats,)


def _vmap(function: Any, args: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    return pl.vmap(pl.jit(function)), pl.tree.map(lambda x: jnp.stack([x, x]), args)


WAYS: dict[str, Callable[[Any, tuple[Any, ...]], tuple[Any, tuple[Any, ...]]]] = {
    "eager": lambda function, args: (function, args),
    "jit": lambda function, args: (pl.jit(function), args),
    "grad": _grad,
    "vmap": _vmap,
}
"""By name: the function that is called for a function and its arguments, and with what."""
