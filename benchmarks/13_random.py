"""How long does it take to draw random numbers, and to draw the first ones of a kind?"""

from __future__ import annotations

import time
from typing import Any

from versus import Target, compare, per_call


def measurements(jax: Any) -> dict[str, Any]:
    """Seconds of one eager call; of the first call also what it compiles."""
    random = jax.random
    key, raw = random.key(0), random.PRNGKey(0)

    def drawn(function: Any, *arguments: Any) -> Any:
        return lambda: per_call(lambda: function(*arguments).block_until_ready())

    def first(name: str, *arguments: Any) -> Any:
        def measure() -> float:
            jax.clear_caches()
            start = time.perf_counter()
            getattr(random, name)(key, *arguments).block_until_ready()
            return time.perf_counter() - start

        return measure

    return {
        "normal, 10^7": drawn(random.normal, key, (10**7,)),
        "uniform, 10^7": drawn(random.uniform, key, (10**7,)),
        "bits, 10^7": drawn(random.bits, key, (10**7,)),
        "normal(key)": drawn(random.normal, key),
        "normal(raw key)": drawn(random.normal, raw),
        "split(key)": drawn(random.split, key),
        "first normal": first("normal", (8, 8)),
        "first randint": first("randint", (8, 8), 0, 10),
        "first permutation": first("permutation", 100),
        "first gamma": first("gamma", 2.0, (8,)),
    }


TARGETS = {
    "normal, 10^7": Target(1.0, "ms"), "uniform, 10^7": Target(1.0, "ms"), "bits, 10^7": Target(1.0, "ms"),
    "normal(key)": Target(0.85), "normal(raw key)": Target(0.85), "split(key)": Target(0.85),
    "first normal": Target(0.8, "ms"), "first randint": Target(0.8, "ms"), "first permutation": Target(0.8, "ms"),
    "first gamma": Target(0.8, "ms"),
}  # fmt: skip

if __name__ == "__main__":
    compare(__file__, TARGETS)
