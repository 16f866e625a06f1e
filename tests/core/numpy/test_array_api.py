"""The names of the array API standard exist and take its parameters; a program written for it runs with other libraries' arrays."""

from __future__ import annotations

import inspect
from typing import Any

from corpus.array_api_table import NAMES

import pellucid.numpy as jnp

ROOTS = {"linalg": jnp.linalg, "fft": jnp.fft, "Array": type(jnp.zeros(1))}


def owner(text: str) -> tuple[Any, str]:
    """The module or class that holds the name in `text`, and the name there."""
    module, _, name = text.partition("(")[0].rpartition(".")
    return ROOTS.get(module, jnp), name


def standard_parameters(text: str) -> list[inspect.Parameter]:
    """The parameters that the standard gives a function."""
    names: dict[str, Any] = {}
    exec(f"def function({text.partition('(')[2]}: ...", names)
    return list(inspect.signature(names["function"]).parameters.values())


def difference(text: str) -> str | None:
    """Difference of a function's parameters from those that the standard gives it."""
    try:
        parameters = inspect.signature(getattr(*owner(text))).parameters
    except ValueError:  # of C, without a signature
        return None
    positional = [p for p in parameters.values() if p.kind not in (p.KEYWORD_ONLY, p.VAR_KEYWORD)]
    is_variadic = any(p.kind is p.VAR_POSITIONAL for p in positional)
    for i, standard in enumerate(standard_parameters(text)):
        if standard.kind in (standard.POSITIONAL_ONLY, standard.VAR_POSITIONAL):
            if i >= len(positional) and not is_variadic:
                return f"{standard} can't be positional"
            continue
        ours = parameters.get(standard.name)
        if ours is None or ours.kind is ours.POSITIONAL_ONLY:
            return f"no {standard}"
        if standard.default not in (..., standard.empty) and ours.default not in (
            None,
            standard.default,
        ):
            return f"{standard}, and here {ours}"
        if standard.kind is standard.POSITIONAL_OR_KEYWORD and positional[i : i + 1] != [ours]:
            return f"{standard} isn't parameter {i}"
    return None


def test_names_take_the_parameters_of_the_standard() -> None:
    missing = [text for text in NAMES if not hasattr(*owner(text))]
    assert not missing
    calls = [text for text in NAMES if "(" in text and not text.startswith("Array.")]
    differences = {text: d for text in calls if (d := difference(text)) is not None}
    assert list(differences) == [
        "astype(x, dtype, /, *, copy=True, device=...)"
    ]  # arrays never change
