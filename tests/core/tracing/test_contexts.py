"""Contexts of the top level: what is traced and run under them, and how they are kept apart."""

import numpy as np
import pytest
from corpus import tracing_contexts
from message_checks import check_message

import pellucid as pl
from pellucid import lax, numpy as jnp
from pellucid.base.errors import ConcretizationError

X = np.ones(3, np.float32)


@pytest.mark.oracle
@pytest.mark.parametrize(("program", "arguments"), tracing_contexts.PROGRAMS)
def test_programs_give_what_the_reference_gives(oracle, program, arguments):
    fails = tracing_contexts.fails(program, arguments)
    oracle.check(program, *arguments, library=pl, fails=fails)


@pytest.mark.parametrize(
    "use",
    [
        jnp.cos,
        lax.sin,
        lambda x: pl.jit(lambda: x + 1)(),
        lambda x: lax.cond(True, lambda: x, lambda: x + 1),
        lambda x: pl.vmap(lambda y: y + x)(X),
    ],
)
@pytest.mark.parametrize("transformation", [pl.jit, pl.vmap, pl.grad])
def test_what_is_not_known_while_tracing_is_refused(transformation, use):
    def function(x):
        with pl.ensure_compile_time_eval():
            return use(x)

    argument = 1.0 if transformation is pl.grad else X
    check_message(
        lambda: transformation(function)(argument),
        ConcretizationError,
        "`ensure_compile_time_eval` met a value that is known only when the program runs.",
    )


def test_a_block_ends_also_by_an_error():
    def function(x):
        with pytest.raises(ZeroDivisionError), pl.ensure_compile_time_eval():
            raise ZeroDivisionError
        return x + 1

    assert pl.jit(function)(1.0) == 2.0


def test_a_function_is_decorated():
    @pl.ensure_compile_time_eval()
    def rows():
        return int(jnp.prod(jnp.array([2, 3])))

    assert pl.jit(lambda x: jnp.broadcast_to(x, rows()))(1.0).shape == (6,)


def test_names_are_strings():
    for use in (lambda: pl.named_call(jnp.sin, name=3), lambda: pl.named_call(object())):
        check_message(use, TypeError, "named_call takes a name that is a string.")


def test_values_that_are_known_are_given():
    core = pl.core
    assert core.concrete_or_error(int, np.float32(3)) == 3
    assert core.concrete_or_error(None, 2.5) == 2.5
    assert core.is_concrete(X)
    seen = []
    pl.jvp(lambda x: seen.append(core.concrete_or_error(float, x)) or x, (2.0,), (1.0,))
    assert seen == [2.0]
    check_message(
        lambda: pl.jit(lambda x: core.concrete_or_error(int, x, "It is a size."))(3),
        ConcretizationError,
        "It is a size.",
        "argument x of",
    )
    assert pl.jit(lambda x: x + core.is_concrete(x))(1) == 1


def test_traces_are_told_apart():
    state = pl.core.get_opaque_trace_state
    states = [state(), state(convention="nnx")]
    pl.jit(lambda x: states.extend([state(), state()]) or x)(1.0)
    assert states[0] == states[1] == state()
    assert states[2] == states[3]
    assert states[0] != states[2]
