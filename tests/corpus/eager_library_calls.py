"""The calls of `corpus.library_calls`, computed at once under options that reach eager work."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from corpus.library_calls import Call, Library


def _computed(library: Library, function: Any, operands: tuple[Any, ...], option: Any) -> None:
    """Compute the results at once under `option`; operands are on devices before."""
    arrays = [library.jax.device_put(x) for x in operands]
    with option:
        library.jax.block_until_ready(function(*arrays))


OPTIONS: dict[str, Callable[[Any], Any]] = {
    "transfer_guard": lambda jax: jax.transfer_guard("disallow"), "debug_nans": lambda jax: jax.debug_nans(True),
    "disable_jit": lambda jax: jax.disable_jit(True),
}  # fmt: skip
"""Options that reach eager work, by name."""


def answers(jax: Any, calls: Sequence[Any]) -> list[tuple[str, ...]]:
    """For each call the options of OPTIONS under which it works when it is computed at once."""
    library = Library(jax)
    return [
        tuple(name for name, error in failures(library, Call(*call)).items() if error is None)
        for call in calls
    ]


def failures(library: Library, call: Call) -> dict[str, Exception | None]:
    """For each option of OPTIONS the exception of `call` under it, or None."""
    found: dict[str, Exception | None] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, option in OPTIONS.items():
            found[name] = None
            try:
                _computed(library, library.function(call), call.operands, option(library.jax))
            except Exception as error:  # the call's own, whatever it is
                found[name] = error
    return found
