"""What the reference library gives for rows; runs in the process of the oracle."""

from __future__ import annotations

import platform
from typing import Any, NamedTuple

import numpy as np

CHUNK = 60
COMPILATION: dict[str, Any] = {"xla_llvm_disable_expensive_passes": True}
"""Options by which rows are compiled here and there, so that equal programs give equal bits.

The first halves the time of compilation. The second keeps the bits of answers that were recorded on another machine.
"""
if platform.machine() in ("x86_64", "AMD64"):
    COMPILATION["xla_cpu_max_isa"] = "AVX2"


class Question(NamedTuple):
    """A row's expression and its operands; for derivatives, tangents and cotangents of floating results."""

    call: str
    names: tuple[str, ...]
    operands: list[Any]
    x64: bool
    wrt: tuple[int, ...]
    tangents: list[Any]
    cotangents: list[Any]


class Answer(NamedTuple):
    """Values and weak types of the results and the program's text; tangents, then cotangents of operands."""

    error: str | None = None
    values: tuple[Any, ...] = ()
    weak_types: tuple[bool, ...] = ()
    text: str = ""
    derivative_error: str | None = None
    derivatives: tuple[Any, ...] = ()


Outcome = tuple[list[Any], tuple[bool, ...], str] | str
"""Results, weak types and text, or an error."""


def answers(jax: Any, questions: list[Question]) -> list[Answer]:
    """An answer for each question."""
    found: dict[int, Answer] = {}
    for x64 in (False, True):
        with jax.enable_x64(x64):
            asked = {i: q for i, q in enumerate(questions) if q.x64 is x64}
            values = outcomes(jax, {i: (function_of(jax, q), q.operands) for i, q in asked.items()})
            pairs = outcomes(
                jax, {i: (derivatives_of(jax, q), q.operands) for i, q in asked.items() if q.wrt}
            )
            for i in asked:
                found[i] = answer(values[i], pairs.get(i))
    return [found[i] for i in range(len(questions))]


def answer(values: Outcome, pair: Outcome | None) -> Answer:
    """What is said of a row: its values, and its derivatives where they were asked for."""
    if isinstance(values, str):
        return Answer(error=values)
    results, weak_types, text = values
    given = Answer(values=tuple(results), weak_types=weak_types, text=text)
    if pair is None:
        return given
    if isinstance(pair, str):
        return given._replace(derivative_error=pair)
    return given._replace(derivatives=tuple(pair[0]))


def outcomes(jax: Any, tasks: dict[int, tuple[Any, list[Any]]]) -> dict[int, Outcome]:
    """Results of flat functions, weak types, and programs' texts, or what they raised.

    What can be traced is compiled together: many small compilations are slow, and results of equal
    programs are then equal to the last bit.
    """
    traced: dict[int, Any] = {}
    found: dict[int, Outcome] = {}
    for i, (function, operands) in tasks.items():
        try:
            traced[i] = jax.make_jaxpr(function)(*operands)
        except Exception as error:
            found[i] = f"{type(error).__name__}: {error}"
    keys = list(traced)
    for start in range(0, len(keys), CHUNK):
        chunk = keys[start : start + CHUNK]
        found |= run_together(jax, {i: traced[i] for i in chunk}, {i: tasks[i][1] for i in chunk})
    return found


def run_together(
    jax: Any, programs: dict[int, Any], operands: dict[int, list[Any]]
) -> dict[int, Outcome]:
    """Results of traced programs by one compiled program; one by one if that fails."""

    def all_results(groups: list[list[Any]]) -> list[list[Any]]:
        return [
            jax.core.eval_jaxpr(p.jaxpr, p.consts, *xs)
            for p, xs in zip(programs.values(), groups, strict=True)
        ]

    try:
        results = jax.jit(all_results, compiler_options=COMPILATION)(list(operands.values()))
        results = [[np.asarray(r) for r in group] for group in results]
    except Exception as error:
        if len(programs) == 1:
            return dict.fromkeys(programs, f"{type(error).__name__}: {error}")
        return {
            i: o
            for k in programs
            for i, o in run_together(jax, {k: programs[k]}, {k: operands[k]}).items()
        }
    return {
        i: (group, tuple(a.weak_type for a in programs[i].out_avals), str(programs[i]))
        for i, group in zip(programs, results, strict=True)
    }


def function_of(jax: Any, question: Question) -> Any:
    """The row's expression as a function that gives a list."""
    names = {"lax": jax.lax, "jax": jax, "jnp": jax.numpy, "np": np}
    evaluate = eval(f"lambda {', '.join(question.names)}: {question.call}", names)

    def function(*operands: Any) -> list[Any]:
        results = evaluate(*operands)
        return list(results) if isinstance(results, (list, tuple)) else [results]

    return function


def derivatives_of(jax: Any, question: Question) -> Any:
    """The function from operands to tangents of the floating results, then cotangents of the operands."""
    function = function_of(jax, question)

    def derivatives(*operands: Any) -> list[Any]:
        def of_some(*some: Any) -> list[Any]:
            every = list(operands)
            for i, x in zip(question.wrt, some, strict=True):
                every[i] = x
            return [r for r in function(*every) if jax.numpy.issubdtype(r.dtype, jax.numpy.inexact)]

        some = tuple(operands[i] for i in question.wrt)
        _, tangents = jax.jvp(of_some, some, tuple(question.tangents))
        _, back = jax.vjp(of_some, *some)
        return [*tangents, *back(list(question.cotangents))]

    return derivatives
