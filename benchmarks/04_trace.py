"""How much processor time do tracing and lowering take, per equation?"""

from __future__ import annotations

import functools
import itertools
import time
from typing import Any

import transformer
from versus import Target, compare


def measurements(jax: Any) -> dict[str, Any]:
    """CPU seconds per equation (or per program where the name says so), which waiting for a processor does not add to."""
    jnp = jax.numpy
    p, ids = transformer.parameters(jax), transformer.tokens(jax)
    x = jnp.ones((8,), jnp.float32)

    def fresh() -> Any:  # a new function each time, so that no cache of traces helps
        return functools.partial(transformer.forward, jax, ids=ids)

    def traced(make: Any, *args: Any) -> float:
        best = float("inf")
        for _ in range(3):
            function = make()
            start = time.process_time()
            program = jax.make_jaxpr(function)(*args)
            seconds = time.process_time() - start
            best = min(best, seconds / max(1, len(program.eqns)))
        return best

    def chain(n: int) -> Any:
        def function(v: Any) -> Any:
            for _ in range(n):
                v = v * 2.0
            return v

        return function

    def lowered() -> float:
        best = float("inf")
        for _ in range(3):
            program = jax.jit(fresh()).trace(p)
            start = time.process_time()
            program.lower()
            best = min(best, time.process_time() - start)
        return best

    def whole(make: Any, *args: Any) -> float:
        best = float("inf")
        for _ in range(3):
            function = make()
            start = time.process_time()
            jax.make_jaxpr(function)(*args)
            best = min(best, time.process_time() - start)
        return best

    def linearity() -> float:
        small = min(traced(lambda: chain(100), x) for _ in range(5))
        return traced(lambda: chain(10_000), x) / small

    factors = map(float, itertools.count(2))

    def retrace() -> float:
        best = float("inf")
        for _ in range(20):
            factor = next(factors)  # so that no program of the same content is found
            function = jax.jit(lambda v, factor=factor: jnp.sin(v) * factor + v)
            start = time.process_time()
            function.trace(x)
            best = min(best, time.process_time() - start)
        return best

    def fresh_step() -> Any:
        return functools.partial(transformer.train_step(jax), ids=ids)

    def define_again() -> float:
        best = float("inf")
        for _ in range(20):
            function = jax.jit(lambda v: jnp.sin(v) * 2.0 + v)
            start = time.process_time()
            function.trace(x)
            best = min(best, time.process_time() - start)
        return best

    return {
        "make_jaxpr of 12 layers, per equation": lambda: traced(fresh, p),
        "make_jaxpr of 12 layers, whole": lambda: whole(fresh, p),
        "make_jaxpr of the train step, whole": lambda: whole(fresh_step, p),
        "lower 12 layers, whole": lowered,
        "chain of 10,000 against 100, per equation": linearity,
        "trace a small function again": retrace,
        "define a small function again, unchanged": define_again,
    }


TARGETS = {
    "make_jaxpr of 12 layers, per equation": Target(0.35),
    "make_jaxpr of 12 layers, whole": Target(0.35, "ms"),
    "make_jaxpr of the train step, whole": Target(0.35, "ms"),
    "lower 12 layers, whole": Target(0.6, "ms"),
    "chain of 10,000 against 100, per equation": Target(1.15, ""),
    "trace a small function again": Target(0.4),
    "define a small function again, unchanged": Target(0.4),
}

if __name__ == "__main__":
    compare(__file__, TARGETS, rounds=3)
