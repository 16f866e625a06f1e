"""`debug.breakpoint` under all transformations, and its prompt."""

from __future__ import annotations

import io

import numpy as np
import pytest

import pellucid as pl
from pellucid import lax, numpy as jnp
from pellucid._machine.callbacks import breakpoints

SHARED = 7


def stopped(commands: str, transform, *operands, **options):
    """(results, what is shown after each prompt) of a function that stops, under `transform`."""
    stdout = io.StringIO()

    def function(x):
        y = jnp.sin(x)
        mixed = {"twice": 2 * y, "count": 3, "text": "words"}
        pl.debug.breakpoint(stdin=io.StringIO(commands), stdout=stdout, **options)
        return y + mixed["twice"]

    result = transform(function)(*operands)
    pl.effects_barrier()
    return result, stdout.getvalue().split(breakpoints.BreakpointPrompt.prompt)


@pytest.mark.parametrize("transform", [pl.jit, lambda f: f, pl.remat, lambda f: pl.jit(pl.jit(f))])
def test_a_prompt_shows_the_variables_of_the_run(transform) -> None:
    result, shown = stopped(
        "p x\nmixed['count'] + SHARED\np mixed\n\nc\n", transform, jnp.float32(1)
    )
    np.testing.assert_allclose(result, 3 * np.sin(1.0), 1e-6)
    listing, x, total, mixed, nothing, end = shown
    assert "->" in listing
    assert "pl.debug.breakpoint(" in listing
    assert x.startswith("Array(1., dtype=float32")
    assert total == "10\n"
    assert "'count': 3, 'text': 'words'" in mixed
    assert "Array(1.682" in mixed
    assert nothing == end == ""


@pytest.mark.parametrize("transform", [pl.grad, lambda f: pl.jit(pl.grad(f)), pl.value_and_grad])
def test_derivatives_stop_in_the_forward_pass(transform) -> None:
    result, shown = stopped("p x\nc\n", transform, 1.0)
    np.testing.assert_allclose(np.ravel(result)[-1], 3 * np.cos(1.0), 1e-6)
    assert shown[1].startswith("Array(1.")
    assert len(shown) == 3


def test_elements_of_a_batch_and_steps_of_a_loop_stop_one_after_the_other() -> None:
    _, shown = stopped("p x\nc\n" * 3, pl.vmap, jnp.arange(3.0), ordered=True)
    assert [text[:8] for text in shown[1::2]] == ["Array(0.", "Array(1.", "Array(2."]

    def looped(function):
        return lambda xs: lax.scan(lambda c, x: (c, function(x)), 0, xs)

    _, shown = stopped("p x\nc\n" * 3, looped, jnp.arange(3.0), ordered=True)
    assert [text[:8] for text in shown[1::2]] == ["Array(0.", "Array(1.", "Array(2."]


def test_the_stack_leads_to_the_caller() -> None:
    _, shown = stopped("u\nd\nd\nw\np nothing\nhelp p\nc\n", pl.jit, 1.0)
    _, caller, back, beyond, stack, error, help_text, _ = shown
    assert "->" in caller
    assert "transform(function)(*operands)" in caller
    assert "pl.debug.breakpoint(" in back
    assert beyond == "*** there is no frame beyond this one\n"
    assert stack.index("test_the_stack_leads") < stack.index("in stopped.<locals>.function")
    assert error == "*** NameError: name 'nothing' is not defined\n"
    assert "p EXPRESSION" in help_text


def test_frames_are_limited_and_the_librarys_shown_when_asked_for() -> None:
    _, shown = stopped("w\nc\n", pl.jit, 1.0, num_frames=1)
    assert shown[1].count(", in ") == 1
    _, shown = stopped("w\nc\n", pl.jit, 1.0, filter_frames=False)
    assert "jitted.py" in shown[1]


@pytest.mark.parametrize(
    "commands", ["q\n", "quit\n", "exit\n", "exit()\nc\n", "EOF\n", "", "p x\n"]
)
@pytest.mark.parametrize("transform", [pl.jit, lambda f: f])
def test_quitting_and_the_end_of_the_input_end_the_process(commands, transform) -> None:
    with pytest.raises(SystemExit) as ended:
        stopped(commands, transform, 1.0)
    assert ended.value.code == 0


def test_a_token_is_there_only_after_the_prompt() -> None:
    stdout = io.StringIO()

    def function(x):
        token = {"x": 2 * x}
        stdin = io.StringIO("p token\nc\n" * 3)
        token = pl.debug.breakpoint(token=token, stdin=stdin, stdout=stdout, num_frames=1)
        return 3 * token["x"]

    assert pl.jit(function)(2.0) == 12.0
    assert "'x': Array(4." in stdout.getvalue()
    assert pl.grad(function)(2.0) == 6.0
    np.testing.assert_array_equal(pl.jit(pl.vmap(function))(jnp.arange(3.0)), [0.0, 6.0, 12.0])


def test_a_variable_that_outlived_its_trace_is_left_out() -> None:
    leaks = []
    pl.jit(lambda x: leaks.append(x))(1.0)

    def function(x):
        leaked = leaks[0]
        unsortable = {1: x, "a": leaked is None}
        pl.debug.breakpoint(stdin=io.StringIO("a\nc\n"), stdout=stdout, num_frames=1)
        return x, unsortable[1]

    stdout = io.StringIO()
    pl.jit(function)(1.0)
    pl.effects_barrier()
    assert "leaked" not in stdout.getvalue().split(breakpoints.BreakpointPrompt.prompt)[1]


def test_programs_run_past_muted_breakpoints() -> None:
    with breakpoints.mute_breakpoints():
        _, shown = stopped("c\n", pl.jit, 1.0)
    assert shown == [""]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"backend": "paper"}, "there is no such `backend`"),
        ({"ordered": True, "token": 1.0}, "can't take a `token`"),
        ({"num_frames": 0}, "from 1 on"),
    ],
)
def test_wrong_options_are_refused(options, error) -> None:
    with pytest.raises((TypeError, ValueError), match=error):
        pl.debug.breakpoint(**options)
