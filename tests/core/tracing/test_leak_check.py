"""The leak check stays silent for the programs of the corpora: none of them leaks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import rotation
from corpus import (
    addend_programs,
    checked_programs,
    compositions,
    effect_programs,
    explicit_batches,
    explicit_programs,
    layout_programs,
    manual_programs,
    metadata_programs,
    models,
    partitioned_programs,
    pmap_programs,
    sharded_programs,
    transform_programs,
)

import pellucid as pl
from pellucid.experimental import checkify


def called(program: Any, *arguments: Any) -> None:
    """Run `program`."""
    program(pl, *arguments)


def staged(program: Any, *arguments: Any) -> None:
    """Stage `program` without running it."""

    def arrays() -> list[Any]:
        return [x for x in pl.tree.leaves(program(pl, *arguments)) if isinstance(x, pl.Array)]

    pl.eval_shape(arrays)


CORPORA = (
    addend_programs, compositions, explicit_batches, explicit_programs, layout_programs, metadata_programs, models,
    partitioned_programs, pmap_programs, sharded_programs, transform_programs,
)  # fmt: skip
"""Corpora of which entries of `PROGRAMS` are programs, or programs with arguments."""
LOOKING = {
    addend_programs,
    explicit_batches,
    explicit_programs,
    partitioned_programs,
    pmap_programs,
}
"""Those whose programs look at their arrays, and can't be staged."""
FAILING = {
    transform_programs.forward_through_custom_reverse, layout_programs.at_once, *layout_programs.FAILING,
    *explicit_programs.FAILING, *pmap_programs.FAILING,
}  # fmt: skip
"""Programs that are mistakes, or can't be staged."""


def cases() -> Iterator[tuple[str, str, Callable[[], Any]]]:
    """Corpus, name and run of each program that raises no error without the check."""
    for corpus in CORPORA:
        run = called if corpus in LOOKING else staged
        for i, entry in enumerate(corpus.PROGRAMS):
            program, arguments = entry if isinstance(entry, tuple) else (entry, ())
            if program not in FAILING:
                name = f"{program.__name__}-{i}"
                yield corpus.__name__, name, lambda r=run, p=program, a=arguments: r(p, *a)
    for name in manual_programs.PROGRAMS:
        for form in manual_programs.FORMS:
            if name not in manual_programs.NESTED or form is manual_programs.value_at_once:
                run = called if name in manual_programs.NESTED else staged
                label = f"{form.__name__}-{name}"
                yield "manual", label, lambda r=run, f=form, n=name: r(f, n)
    for name in checked_programs.PROGRAMS:
        yield "checked", name, lambda n=name: checked_programs.messages_of(pl, checkify, n)
    for name, (program, arguments) in effect_programs.VALUES.items():
        yield "effects", name, lambda p=program, a=arguments: p(pl, *a)
    for name in effect_programs.PRINTED:
        yield "printed", name, lambda n=name: effect_programs.printed(pl, n)


CASES = list(cases())


@pytest.mark.parametrize("run", [
    pytest.param(run, id=f"{corpus}-{name}", marks=case.marks)
    for (corpus, name, run), case in zip(CASES, rotation.rotating(CASES, lambda c: c[0]), strict=True)
])  # fmt: skip
def test_programs_without_leaks_pass(run: Callable[[], Any]) -> None:
    with pl.checking_leaks():
        run()


def test_programs_keep_nothing_that_functions_captured() -> None:
    staged_once = [
        c for c in compositions.PROGRAMS if c[0] is compositions.jitted_closure_over_tracer
    ]
    with pl.checking_leaks():
        for program, arguments in staged_once:
            program(pl, *arguments)


def test_messages_name_parameters_of_functions_that_capture() -> None:
    captured = object()

    def scaled(first, *, factor=captured):
        del factor
        return first if captured is not None else None

    jaxpr = pl.make_jaxpr(pl.jit(scaled))(1.0).jaxpr
    [call] = jaxpr.eqns
    assert call.params["jaxpr"].jaxpr.debug_info.argument_names == ("first",)
