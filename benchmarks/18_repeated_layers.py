"""Which programs do calls of repeated layers change, and do these compile faster for it?

Every program of the corpus of tests, its gradient and its gradients per example, the models, and the programs of
`11_steady_states.py` are lowered with `call_repeated_layers` and without it. Where the modules are equal, XLA compiles
the same. Where they differ, both are compiled alternately; a row has the CPU seconds, the number of distinct fusions,
which XLA compiles once each, and the temporary memory of both. A name ends in `!` where calls compile more than 2 % slower.
"""

from __future__ import annotations

import importlib
import os
import pathlib
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import models
import transformer
from versus import distinct_fusions

import pellucid as pl

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests"))
from corpus import lowered, sizes

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
MAX_RATIO = 1.02
"""Ratio of CPU times to compile, calls to flat, above which a program is marked."""


def programs() -> Iterator[tuple[str, Callable[..., Any], Any]]:
    """(name, function, arguments) of each program."""
    for k, (program, arguments) in enumerate(sizes.PROGRAMS):
        function, xs = sizes.of_floats(pl, program, arguments)
        yield from _ways(f"{program.__name__} {k}", function, xs)
    for name, model in models.MODELS.items():
        weights, loss = model(pl)
        yield from _ways(name, loss, (weights, models.images()))
    step = transformer.train_step(pl)
    yield "transformer", step, (transformer.parameters(pl), transformer.tokens(pl))
    layered = importlib.import_module("11_steady_states")
    for name, (layer, weights, x, _) in layered.programs(pl).items():

        def stack(weights: Any, x: Any, layer: Any = layer) -> Any:
            for w in weights:
                x = layer(w, x)
            return x

        yield from _ways(f"{name}, four layers", stack, (weights, x))


def _ways(name: str, function: Any, xs: Any) -> Iterator[tuple[str, Callable[..., Any], Any]]:
    """A function of arrays, the gradient of the sum of its results, and that gradient for each of two examples."""

    def total(*xs: Any) -> Any:
        return sum(y.sum() for y in pl.tree.leaves(function(*xs)))

    gradient = pl.grad(total, tuple(range(len(xs)))) if xs else total
    yield name, function, xs
    yield f"{name}, gradient", gradient, xs
    examples = pl.tree.map(lambda x: pl.numpy.stack([x, x]), tuple(xs))
    yield f"{name}, gradients per example", pl.vmap(gradient), examples


def lowered_with(is_called: bool, function: Any, xs: Any) -> Any:
    """The program lowered with `call_repeated_layers` on or off; the error's text where it can't be lowered."""
    pl.config.update("call_repeated_layers", is_called)
    try:
        return pl.jit(lambda *xs: function(*xs)).lower(*xs)
    except Exception as error:  # programs of errors, without a derivative, or that read values
        return f"{type(error).__name__}: {error}"


def main() -> None:
    """Print a row for each program that the option changes, and how many there are."""
    warnings.simplefilter("ignore")
    n_programs, n_refused, ratios = 0, 0, {}
    print(
        f"{'':<48} {'CPU s':>7} {'flat':>7} {'':>5} {'fusions':>8} {'flat':>5} {'MiB':>8} {'flat':>8}"
    )
    for name, function, xs in programs():
        modules = [lowered_with(is_called, function, xs) for is_called in (True, False)]
        if any(isinstance(module, str) for module in modules):
            n_refused += 1
            if type(modules[0]) is not type(modules[1]):
                raise AssertionError(f"{name}: one way alone can be lowered: {modules}")
            continue
        n_programs += 1
        called, flat = (lowered.without_names(module.as_text()) for module in modules)
        if called == flat:
            continue
        seconds: list[list[float]] = [[], []]
        for _ in range(ROUNDS):
            for module, measured in zip(modules, seconds, strict=True):
                start = time.process_time()
                module.compile()
                measured.append(time.process_time() - start)
        a, b = map(min, seconds)
        ratios[name] = a / b
        (n_a, m_a), (n_b, m_b) = (
            (distinct_fusions(c.as_text()), c.memory_analysis().temp_size_in_bytes / 2**20)
            for c in (module.compile() for module in modules)
        )
        print(
            f"{name + '!' * (a > MAX_RATIO * b):<48} {a:7.3f} {b:7.3f} {a / b:5.2f} "
            f"{n_a:8} {n_b:5} {m_a:8.3f} {m_b:8.3f}",
            flush=True,
        )
    n_slower = sum(ratio > MAX_RATIO for ratio in ratios.values())
    print(
        f"{n_programs} programs, {n_refused} that can't be lowered; {len(ratios)} differ, {n_slower} of them compile slower"
    )


if __name__ == "__main__":
    main()
