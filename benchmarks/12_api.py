"""How long do functions of the API take: eager calls, indexing, tracing, the first call, imports, memory?"""

from __future__ import annotations

import functools
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from versus import Target, compare, per_call

UNARY = (
    "abs", "arctan", "ceil", "cos", "cosh", "exp", "expm1", "floor", "isfinite", "isnan", "log", "log1p", "negative", "reciprocal", "rint",
    "sign", "sin", "sqrt", "square", "tanh", "logical_not",
)  # fmt: skip
BINARY = ("add", "arctan2", "divide", "equal", "floor_divide", "greater", "hypot", "logaddexp", "maximum", "minimum", "mod", "multiply", "power", "subtract")  # fmt: skip
REDUCTIONS = (
    "all",
    "any",
    "argmax",
    "argsort",
    "cumsum",
    "max",
    "mean",
    "min",
    "prod",
    "sort",
    "std",
    "sum",
    "var",
)
SHAPES = ("ravel", "transpose", "squeeze", "flip", "tril", "zeros_like")
OTHERS: dict[str, Callable[[Any, Any], Any]] = {
    "clip": lambda jnp, x: jnp.clip(x, 0.0, 0.5), "concatenate": lambda jnp, x: jnp.concatenate([x, x]), "dot": lambda jnp, x: jnp.dot(x, x),
    "einsum": lambda jnp, x: jnp.einsum("ij,jk", x, x), "stack": lambda jnp, x: jnp.stack([x, x]), "where": lambda jnp, x: jnp.where(x > 0, x, x),
}  # fmt: skip
INDEXING: dict[str, Callable[[Any, Any, Any], Any]] = {
    "x[0]": lambda x, i, m: x[0], "x[1:3]": lambda x, i, m: x[1:3], "x[mask]": lambda x, i, m: x[m], "x[indices]": lambda x, i, m: x[i],
    "x.at[0].set": lambda x, i, m: x.at[0].set(1.0),
}  # fmt: skip
MEMORY = "import resource; print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)"


def functions(jnp: Any, x: Any) -> dict[str, Callable[[], Any]]:
    """Calls of 60 common functions on the matrix `x`."""
    calls: dict[str, Callable[[], Any]] = {}
    for name in (*UNARY, *REDUCTIONS, *SHAPES):
        calls[name] = functools.partial(getattr(jnp, name), x)
    for name in BINARY:
        calls[name] = functools.partial(getattr(jnp, name), x, x)
    for name, call in OTHERS.items():
        calls[name] = functools.partial(call, jnp, x)
    return calls


def measurements(jax: Any) -> dict[str, Any]:
    """Seconds of eager calls of 8 by 8 arrays, of first calls and imports; bytes after imports."""
    jnp = jax.numpy
    x = jnp.ones((8, 8), jnp.float32)
    indices, mask = jnp.array([1, 3, 5]), jnp.arange(8) > 3
    calls = functions(jnp, x)
    rows: dict[str, Any] = {
        f"jnp.{name}": lambda call=call: per_call(call, seconds=0.02)
        for name, call in calls.items()
    }
    for name, index in INDEXING.items():
        rows[name] = lambda index=index: per_call(lambda: index(x, indices, mask), seconds=0.02)

    def traced() -> float:
        def program(x: Any) -> Any:
            for _ in range(200 // len(UNARY) + 1):
                for name in UNARY:
                    getattr(jnp, name)(x)
            return x

        start = time.perf_counter()
        jax.make_jaxpr(lambda x: program(x))(x)
        return time.perf_counter() - start

    def first_calls() -> float:
        jax.clear_caches()
        start = time.perf_counter()
        for call in calls.values():
            call().block_until_ready()
        return time.perf_counter() - start

    def of_new_process(code: str) -> Any:
        return lambda: float(subprocess.check_output([sys.executable, "-c", code], text=True))

    name = jax.__name__
    modules = ", ".join(
        f"{name}.{part}" for part in ("numpy", "scipy.linalg", "scipy.special", "scipy.stats", "nn")
    )
    timed = (
        f"import time; t = time.perf_counter(); import {modules}; print(time.perf_counter() - t)"
    )
    rows["trace 200 functions"] = traced
    rows["first calls of 60 functions"] = first_calls
    rows["import numpy, scipy, nn"] = of_new_process(timed)
    rows["memory after imports"] = of_new_process(
        f"import {modules}, {name}.scipy.optimize, {name}.scipy.signal, {name}.experimental.sparse; {MEMORY}"
    )
    return rows


TARGETS = {
    **dict.fromkeys(INDEXING, Target(0.3)), "trace 200 functions": Target(0.3, "ms"), "first calls of 60 functions": Target(0.8, "ms"),
    "import numpy, scipy, nn": Target(0.5, "ms"), "memory after imports": Target(0.7, "MiB"),
}  # fmt: skip

if __name__ == "__main__":
    records = compare(__file__, TARGETS, otherwise=Target(1.2), rounds=3)
    ratios = [record["ratio"] for record in records if record["name"].startswith("jnp.")]
    print(f"median of {len(ratios)} functions: {statistics.median(ratios):.2f} (wanted <= 0.85)")
