"""How long until the first result of a train step, how fast is it then, how much memory does it take?

The first result is also given in CPU seconds of all threads, to which waiting for a processor does not add. The number of
distinct fusions is what the time to compile depends on most, and no other process has an influence on it.
"""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Callable
from typing import Any

import models
import transformer
from versus import Target, compare, distinct_fusions, per_call


def measurements(jax: Any) -> dict[str, Any]:
    """Seconds and bytes of a 12-layer train step whose layer is a jitted function, of one in a plain loop, and of models."""
    p, ids = transformer.parameters(jax), transformer.tokens(jax)
    kinds: dict[str, tuple[Any, ...]] = {
        "": (functools.partial(transformer.train_step, jax, jit_layers=True), p, ids),
        ", plain loop": (functools.partial(transformer.train_step, jax), p, ids),
    }
    batch = jax.numpy.asarray(models.images())
    for name, model in models.MODELS.items():
        weights, loss = model(jax)
        step = functools.partial(_descent, jax, loss)
        kinds[f", {name}"] = step, jax.tree.map(jax.numpy.asarray, weights), batch
    return _of_many_keys(jax) | {
        f"{what}{kind}": measure
        for kind, step in kinds.items()
        for what, measure in _measurements(jax, *step).items()
    }


def _of_many_keys(jax: Any) -> dict[str, Any]:
    """Seconds to trace and compile what sorts by 100 keys."""
    jnp = jax.numpy
    functions = {
        "unique of 100 columns": lambda n: lambda x: jnp.unique(x, axis=0, size=8 + n),
        "lexsort by 100 keys": lambda n: lambda x: jnp.lexsort(x.T) + n,
    }
    rows, counter = jnp.zeros((500, 100)), itertools.count()

    def compiled(make: Callable[[int], Any]) -> float:
        start = time.perf_counter()
        jax.jit(make(next(counter))).lower(rows).compile()
        return time.perf_counter() - start

    return {name: functools.partial(compiled, make) for name, make in functions.items()}


def _descent(jax: Any, loss: Any, *, learning_rate: float) -> Any:
    """One step of gradient descent: (parameters, batch) -> (parameters, loss)."""

    def step(p: Any, batch: Any) -> Any:
        value, gradient = jax.value_and_grad(loss)(p, batch)
        return jax.tree.map(lambda a, g: a - learning_rate * g, p, gradient), value

    return step


def _measurements(jax: Any, step_of: Callable[..., Any], p: Any, batch: Any) -> dict[str, Any]:
    steps: list[Any] = []
    cpu_seconds: list[float] = []

    def first_result() -> float:
        # A rate of its own each time, so that no cache of programs helps.
        step = jax.jit(step_of(learning_rate=0.1 + len(steps) / 1024))
        start, cpu_start = time.perf_counter(), time.process_time()
        jax.block_until_ready(step(p, batch))
        seconds = time.perf_counter() - start
        cpu_seconds.append(time.process_time() - cpu_start)
        steps.append(step)
        return seconds

    def steady() -> float:
        step = steps[-1]
        return per_call(lambda: jax.block_until_ready(step(p, batch)), seconds=1.0)

    @functools.cache
    def compiled() -> Any:
        return steps[-1].lower(p, batch).compile()

    return {
        "first result": first_result,
        "CPU of it": lambda: cpu_seconds[-1],
        "steady state": steady,
        "temporary memory": lambda: float(compiled().memory_analysis().temp_size_in_bytes),
        "distinct fusions": lambda: float(distinct_fusions(compiled().as_text())),
    }


KINDS = ("", ", plain loop", *(f", {name}" for name in models.MODELS))
TARGETS = {
    "first result": Target(0.45, "s"),
    "steady state": Target(1.03, "ms"),
    "temporary memory": Target(1.0, "MiB"),
    "first result, plain loop": Target(0.40, "s"),
    "steady state, plain loop": Target(1.02, "ms"),
    "temporary memory, plain loop": Target(0.6, "MiB"),
    "first result, ViT": Target(0.40, "s"),
    "temporary memory, ViT": Target(0.6, "MiB"),
    **{f"first result, {name}": Target(0.9, "s") for name in ("ResNet", "U-Net")},
    **{f"steady state, {name}": Target(1.02, "ms") for name in models.MODELS},
    **{f"temporary memory, {name}": Target(1.0, "MiB") for name in ("ResNet", "U-Net")},
    **{f"distinct fusions{kind}": Target(1.0, "") for kind in KINDS},
    **{f"CPU of it{kind}": Target(1.0, "s") for kind in KINDS},
    "unique of 100 columns": Target(0.3, "s"),
    "lexsort by 100 keys": Target(0.6, "s"),
}

if __name__ == "__main__":
    compare(__file__, TARGETS, rounds=3)
