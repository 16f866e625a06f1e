"""How long does a call of a compiled function take, by the number and kind of its arguments and by the way to call it?"""

from __future__ import annotations

import subprocess
import sys
import types
from typing import Any

import numpy as np
from versus import Target, compare, per_call

_FIRST_CALL = """
import time
import numpy as np
start = time.perf_counter()
import {library} as library
first = library.jit(lambda x: x * 2 + 1)(np.ones(8)).block_until_ready()
ready = time.perf_counter()
library.jit(lambda x: library.numpy.sin(x) * 2 + 1)(first).block_until_ready()
print(ready - start, time.perf_counter() - ready)
"""


def measurements(jax: Any) -> dict[str, Any]:
    """Seconds of one call."""
    jnp = jax.numpy
    x = jnp.ones((8,), jnp.float32)
    host = np.ones((8,), np.float32)

    def of_one(x: Any) -> Any:
        return x + 1

    def of_each(*xs: Any) -> Any:
        return [v + 1 for v in xs]

    def of_tree(tree: Any) -> Any:
        return jax.tree.map(of_one, tree)

    def power(x: Any, n: int) -> Any:
        return x**n

    def call(function: Any, *arguments: Any) -> Any:
        return lambda: per_call(lambda: function(*arguments))

    timed = {}
    for n in (1, 10, 100):
        timed[f"{n} array argument{'s' * (n > 1)}"] = call(jax.jit(of_each), *[x] * n)
    tree = {f"layer{i}": {"w": x, "b": x, "rest": [x, x]} for i in range(50)}
    timed["nested dict of 200 leaves"] = call(jax.jit(of_tree), tree)

    for n in (1, 10):
        timed[f"{n} NumPy argument{'s' * (n > 1)}"] = call(jax.jit(of_each), *[host] * n)
    timed["1 NumPy argument of 64 bits"] = call(jax.jit(of_one), host.astype(np.float64))
    timed["an array and a NumPy scalar"] = call(jax.jit(of_each), x, np.float32(2.0))
    timed["an array and a Python number"] = call(jax.jit(of_each), x, 2.0)
    timed["a static argument by position"] = call(jax.jit(power, static_argnums=1), x, 3)
    by_name = jax.jit(power, static_argnames="n")
    timed["a static argument by name"] = lambda: per_call(lambda: by_name(x, n=3))

    donating = jax.jit(of_one, donate_argnums=0)

    def chain() -> None:
        nonlocal x_to_donate
        x_to_donate = donating(x_to_donate)

    x_to_donate = jnp.ones((8,), jnp.float32)
    timed["a donated argument"] = lambda: per_call(chain)

    for n in (1, 10, 100):
        compiled = jax.jit(of_each).lower(*[x] * n).compile()
        timed[f"Compiled, {n} array argument{'s' * (n > 1)}"] = call(compiled, *[x] * n)
    timed["Compiled, nested dict of 200 leaves"] = call(
        jax.jit(of_tree).lower(tree).compile(), tree
    )
    timed["Compiled, one NumPy argument"] = call(jax.jit(of_one).lower(host).compile(), host)

    for shape in ((10,), (100,), (1000,), (100, 64), (16, 64, 64)):
        rows = jnp.ones(shape, jnp.float32)
        timed[f"list of an array of {shape}"] = call(list, rows)

    settings = types.SimpleNamespace(factor=2.0)
    timed["jit anew of a function that reads an object"] = lambda: per_call(
        lambda: jax.jit(of_object)(x)
    )

    def of_object(x: Any) -> Any:
        return x * settings.factor

    def first_calls(which: int) -> float:
        code = _FIRST_CALL.format(library=jax.__name__)
        command = [sys.executable, "-c", code]
        return min(
            float(subprocess.check_output(command, text=True).split()[which]) for _ in range(2)
        )

    timed["import and first jitted function of a process"] = lambda: first_calls(0)
    timed["second jitted function of a process"] = lambda: first_calls(1)
    return timed


if __name__ == "__main__":
    targets = {
        "import and first jitted function of a process": Target(1.0, "ms"),
        "second jitted function of a process": Target(1.0, "ms"),
        "jit anew of a function that reads an object": Target(1.0, "us"),
    }
    compare(__file__, targets)
