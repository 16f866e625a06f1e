"""What the programs of `examples/` compile, with the arguments of the first call."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest

import pellucid as pl

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
