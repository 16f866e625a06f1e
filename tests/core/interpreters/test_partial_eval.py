"""Functions under transformations of libraries, and programs of what is unknown, as in the reference."""

import numpy as np
import pytest
from corpus import wrapped_functions

import pellucid as pl
from pellucid._machine.base.errors import ArgumentTypeError
from pellucid.api_util import debug_info
from pellucid.extend import core, linear_util


@pytest.mark.oracle
@pytest.mark.parametrize("program", wrapped_functions.PROGRAMS)
def test_programs_give_what_the_reference_gives(oracle, program) -> None:
    oracle.check(program, library=pl, fails=program in wrapped_functions.FAIL)


def test_what_can_not_be_called_is_refused() -> None:
    with pytest.raises(ArgumentTypeError, match="wrap_init needs a function"):
        linear_util.wrap_init(3)  # type: ignore[arg-type]


def test_arguments_have_names_for_messages() -> None:
    info = debug_info("test", lambda p, *rest: p, ({"w": 1.0}, 1, 2), {}, static_argnums=(1,))
    assert info.argument_names == ("p['w']", "rest[1]", "rest[2]")


def test_an_error_in_the_function_ends_blocks_of_the_transformation() -> None:
    @linear_util.transformation
    def at_once(x):
        with core.take_current_trace() as trace:
            traces.append(trace)
            y = yield (x,), {}
            yield y

    traces = []

    def run(x):
        before = core.get_opaque_trace_state()
        try:
            at_once(linear_util.wrap_init(lambda _: 1 / 0)).call_wrapped(1)
        except ZeroDivisionError:
            assert core.get_opaque_trace_state() == before
        value = at_once(linear_util.wrap_init(lambda _: pl.numpy.sum(np.ones(2)))).call_wrapped(1)
        with core.set_current_trace(traces[0]):
            assert core.get_opaque_trace_state() == before
        return x + int(value)

    assert pl.jit(run)(1) == 3
    assert not traces[0].is_eager
