"""Values laid out in memory as stated."""

import numpy as np
import pytest
from corpus import layout_programs
from message_checks import check_message

import pellucid as pl
from pellucid.experimental.layout import Format, Layout, with_layout_constraint

X = layout_programs.X


@pytest.mark.oracle
@pytest.mark.parametrize(("program", "arguments"), layout_programs.PROGRAMS)
def test_programs_give_what_the_reference_gives(oracle, program, arguments):
    fails = program in layout_programs.FAILING
    oracle.check(program, *arguments, library=pl, fails=fails)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_each_element_of_a_batch_is_laid_out_as_stated(axis):
    batch = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)
    constrain = lambda x: with_layout_constraint(x, Layout((1, 0)))
    batched = pl.vmap(constrain, in_axes=axis, out_axes=axis)
    np.testing.assert_array_equal(batched(batch), batch)
    rest = [d for d in range(3) if d != axis]
    assert batched(batch).format.layout.major_to_minor == (axis, *rest[::-1])


def test_the_compiler_follows():
    text = (
        pl.jit(lambda x: with_layout_constraint(x + 1, Layout((1, 0)))).lower(X).compile().as_text()
    )
    assert "f32[2,3]{0,1}" in text


def test_layouts_are_layouts():
    for layout in (Format(Layout((1, 0)), pl.device_put(X).sharding), (1, 0), None):
        check_message(
            lambda layout=layout: with_layout_constraint(X, layout),
            (TypeError, ValueError),
            "ayout",
        )
