"""The programs of examples/, run by any library of the reference's names."""

from __future__ import annotations

from typing import Any


def losses(jax: Any, source: str, steps: int) -> list[float]:
    """The losses of the program `source`, whose imports of pellucid become imports of `jax`, in `steps` steps."""
    program: dict[str, Any] = {"__name__": "example"}
    exec(source.replace("pellucid", jax.__name__), program)
    return program["main"](steps)
