"""Contexts of the top level: what is traced and run under them, and how they are kept apart."""

import subprocess
import sys

import numpy as np
import pytest
from corpus import tracing_contexts
from message_checks import check_message

import pellucid as pl
from pellucid import numpy as jnp
from pellucid._machine.base.errors import ConcretizationTypeError
from pellucid.extend.core import find_top_trace

X = np.ones(3, np.float32)


@pytest.mark.oracle
@pytest.mark.parametrize(("program", "arguments"), tracing_contexts.PROGRAMS)
def test_programs_give_what_the_reference_gives(oracle, program, arguments):
    fails = tracing_contexts.fails(program, arguments)
    oracle.check(program, *arguments, library=pl, fails=fails)


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
        check_message(use, TypeError, "named_call needs a name that is a string.")


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
        ConcretizationTypeError,
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


def test_the_eager_trace_is_one_before_its_first_use():
    program = (
        "import pellucid as pl; before = pl.core.get_opaque_trace_state(); pl.numpy.ones(2) + 1; "
        "assert before == pl.core.get_opaque_trace_state()"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_tracers_are_told_apart_by_their_transformation():
    def is_own(x):
        return x._trace.main is find_top_trace((x,)).main

    seen = []

    def outer(x):
        pl.jvp(lambda y: seen.append((is_own(x), is_own(y))) or x * y, (2.0,), (1.0,))
        return x

    pl.jvp(outer, (1.0,), (1.0,))
    pl.grad(outer)(1.0)
    assert seen == [(False, True)] * 2


@pytest.mark.parametrize(
    ("decorate", "mark"),
    [
        (pl.experimental.xla_metadata.set_xla_metadata(a="b"), 'frontend_attributes = {a = "b"}'),
        (pl.default_matmul_precision("highest"), "HIGHEST"),
        (pl.enable_x64(True), "f64"),
    ],
)
def test_blocks_above_jit_hold_for_its_stages(decorate, mark):
    x = np.ones((2, 2), np.float64)
    plain = pl.jit(lambda x: x @ x)
    function = decorate(plain)

    def text(lowered):
        return lowered.as_text(debug_info=True)

    assert mark in text(function.lower(x))
    assert mark in text(function.trace(x).lower())
    assert mark not in text(plain.lower(x))
    np.testing.assert_array_equal(function(x), x @ x)


def test_a_block_above_jit_holds_for_its_shapes():
    function = pl.enable_x64(True)(pl.jit(lambda x: x))
    x = np.ones(2, np.float64)
    assert function.eval_shape(x).dtype == pl.eval_shape(function, x).dtype == np.float64
