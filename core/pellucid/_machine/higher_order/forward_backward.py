"""Forward and backward pass of reverse mode as functions that are compiled once each."""

from __future__ import annotations

from typing import Any

from pellucid._machine.base import Function
from pellucid._machine.transforms import check_callable
from pellucid._machine.transforms.gradient import VJP, Argnums, ChosenArguments, vjp

from .jitted import jit


def fwd_and_bwd(
    fun: Function, argnums: Argnums, has_aux: bool = False, jitted: bool = True
) -> tuple[Function, Function]:
    """The forward and the backward pass of `fun` as two functions, each compiled once.

    `forward(*args)` returns the results of `vjp` with respect to the arguments at `argnums`; `backward(residuals,
    cotangent)` takes the second of these results and returns the gradient.

    >>> forward, backward = fwd_and_bwd(lambda x: x * x, 0)
    >>> y, residuals = forward(3.0)
    >>> backward(residuals, 1.0)
    Array(6., dtype=float32, weak_type=True)
    """
    check_callable(fun, "fwd_and_bwd")
    chosen = ChosenArguments(argnums)

    def forward(*args):
        def run_on_chosen_arguments(*xs):
            return fun(*chosen.put(args, xs))

        return vjp(run_on_chosen_arguments, *chosen.of(fun, args), has_aux=has_aux)

    def backward(residuals: VJP, cotangent: Any) -> Any:
        return chosen.unwrap(residuals(cotangent))

    return (jit(forward), jit(backward)) if jitted else (forward, backward)
