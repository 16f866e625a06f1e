"""Debugging sessions in kernels: program by program, references as variables, where blocks lie, NaN and what is undefined."""

import io

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import lax
from pellucid.errors import ArgumentValueError
from pellucid.experimental import pallas
from pellucid.experimental.pallas import BlockSpec, pallas_call, tpu
from pellucid_kernel.debug import Prompt, debug, find, isnan

F32 = np.float32
X = np.arange(10, dtype=F32)
BLOCK = BlockSpec((4,), lambda i: (i,))


def scaled(x_ref, o_ref, total_ref):
    i = pallas.program_id(0)
    x = x_ref[...]
    y = x * 2
    o_ref[...] = y
    total_ref[...] = y + i

    @pallas.when(i == 1)
    def _():
        first = x_ref[0]
        o_ref[0] = first * 100

    o_ref[1] = 5.0


CALL = pallas_call(
    scaled, X, grid=3, in_specs=[BLOCK], out_specs=BLOCK, scratch_shapes=[tpu.VMEM((4,), F32)]
)


@pl.jit
def function(x):
    y = x + 0
    z = CALL(y)
    return z * 1


FIRST = scaled.__code__.co_firstlineno
ID, READ, DOUBLE, WRITE, TOTAL, WHEN, INNER, LAST = (FIRST + i for i in (1, 2, 3, 4, 5, 7, 10, 12))
KERNEL = function.__wrapped__.__code__.co_firstlineno + 3


def line(session):
    return session.stack()[-1].line


def in_kernel():
    """A session before the first line of the kernel, in its first program."""
    session = debug(function)(X).step()
    while line(session) != KERNEL:
        session.next()
    return session.step()


def test_a_session_goes_into_the_programs_of_a_kernel_and_back():
    session = in_kernel()
    assert line(session) == ID
    assert session.stack()[-1].run == "(program (0,) of grid (3,))"
    lines = []
    while session.stack()[-1].run == "(program (0,) of grid (3,))":
        lines.append(line(session))
        session.step()
    assert [*dict.fromkeys(lines)][:5] == [ID, READ, DOUBLE, WRITE, TOTAL]
    assert INNER not in lines
    assert (line(session), session.stack()[-1].run) == (ID, "(program (1,) of grid (3,))")
    assert session.back().stack()[-1].run == "(program (0,) of grid (3,))"
    assert line(session) == LAST
    assert line(session.step()) == ID
    session.jump((0,)).back()
    assert line(session) == KERNEL
    np.testing.assert_array_equal(session.finish(), function(X))


def test_references_are_variables_with_what_they_hold_there():
    session = in_kernel()
    held = session.variables()
    np.testing.assert_array_equal(held["x_ref"], X[:4])
    assert np.isnan(held["o_ref"]).all()
    assert np.isnan(held["total_ref"]).all()
    while line(session) != TOTAL:
        session.next()
    held = session.variables()
    np.testing.assert_array_equal(held["x"], X[:4])
    np.testing.assert_array_equal(held["o_ref"], 2 * X[:4])
    assert np.isnan(held["total_ref"]).all()
    np.testing.assert_array_equal(session.next().variables()["total_ref"], 2 * X[:4])
    session.back()
    assert np.isnan(session.variables()["total_ref"]).all()


def test_blocks_have_their_place_in_the_whole_array():
    session = in_kernel().jump((2,))
    assert (line(session), session.stack()[-1].run) == (ID, "(program (2,) of grid (3,))")
    place = "[8:12] of shape (10,), partly outside"
    assert session.blocks() == {"x_ref": place, "o_ref": place}
    np.testing.assert_array_equal(session.variables()["x_ref"], [8, 9, np.nan, np.nan])
    np.testing.assert_array_equal(session.variables()["total_ref"], [9, 11, 13, 15])  # of program 1
    assert session.jump((0,)).blocks()["o_ref"] == "[0:4] of shape (10,)"
    assert debug(function)(X).step().blocks() == {}


def test_a_stop_shows_the_grid_at_its_program():
    session = in_kernel().jump((2,))
    [kernel] = session.grid_record().kernels
    assert (session.grid_record().program, kernel.program_count) == (2, 3)
    x, out = kernel.operands
    assert (x.dims[0].start.coefficients, out.write_count) == ([4], 3)
    assert session.grid_position() == ((2,), (3,))
    assert "kernel `scaled` over a grid of 3" in repr(session.grid())
    assert session.jump((0,)).grid_record().program == 0
    outside = debug(function)(X).step()
    assert (outside.grid(), outside.grid_position()) == (None, None)


def test_blocks_that_data_choose_are_known_at_a_stop():
    def copy(rows_ref, x_ref, o_ref):
        o_ref[...] = x_ref[...]

    spec = tpu.PrefetchScalarGridSpec(
        1,
        (3,),
        [BlockSpec((1,), lambda i, rows: (rows[i],))],
        BlockSpec((1,), lambda i, rows: (i,)),
    )
    call = pallas_call(copy, pl.ShapeDtypeStruct((3,), F32), grid_spec=spec)
    rows = np.array([4, 0, 2], np.int32)
    session = debug(lambda rows, x: call(rows, x))(rows, X).step().jump((1,))
    [kernel] = session.grid_record().kernels
    assert kernel.operands[0].dims[0].start.values == [4, 0, 2]


def test_blocks_that_data_choose_are_those_of_the_call_at_hand():
    def copy(rows_ref, x_ref, o_ref):
        o_ref[...] = x_ref[...]

    blocks = [BlockSpec((1,), lambda i, rows: (rows[i],))], BlockSpec((1,), lambda i, rows: (i,))
    spec = tpu.PrefetchScalarGridSpec(1, (2,), *blocks)
    call = pallas_call(copy, pl.ShapeDtypeStruct((2,), F32), grid_spec=spec)
    rows = np.array([[0, 1], [3, 3]], np.int32)
    session = debug(lambda x: lax.scan(lambda c, rows: (c, call(rows, x)), 0, rows)[1])(X)
    seen = []
    while not session.is_done and len(seen) < 2:
        session.step()
        record = session.grid_record()
        if record is not None:
            [kernel] = record.kernels
            start = kernel.operands[0].dims[0].start
            blocks = start.values or [
                start.offset + c * i for c in start.coefficients for i in (0, 1)
            ]
            seen += [blocks] if blocks not in seen else []
    assert seen == [[0, 1], [3, 3]]


def test_jumps_from_outside_and_what_there_is_none_of():
    session = debug(function)(X).step().jump((1,))
    assert session.stack()[-1].run == "(program (1,) of grid (3,))"
    with pytest.raises(ArgumentValueError, match="no such program"):
        session.jump((3,))
    assert session.stack()[-1].run == "(program (1,) of grid (3,))"
    session.jump((2,))
    assert session.stack()[-1].run == "(program (2,) of grid (3,))"
    with pytest.raises(ArgumentValueError, match="no such program"):
        debug(function)(X).step().jump((1, 0))
    with pytest.raises(ArgumentValueError, match="no kernel here"):
        debug(lambda x: x + 1)(X).step().jump((0,))


def test_breakpoints_and_conditions_in_a_kernel():
    session = debug(function)(X)
    session.break_at(TOTAL, condition="y[0] > 15")
    assert line(session.run()) == TOTAL
    assert session.stack()[-1].run == "(program (2,) of grid (3,))"
    session = debug(function)(X)
    session.break_at(INNER)
    session.run()
    assert line(session) == INNER
    assert session.stack()[-1].function.endswith("_")
    np.testing.assert_array_equal(session.variables()["first"], 4)
    session.run()
    assert session.is_done


def test_values_are_edited_in_a_kernel():
    session = in_kernel().jump((1,))
    while line(session) != WRITE:
        session.next()
    session.set("y", np.full(4, 7, F32))
    expected = np.asarray(function(X)).copy()
    expected[4:8] = [400, 5, 7, 7]
    np.testing.assert_array_equal(session.finish(), expected)


def test_a_grid_of_two_axes_and_one_of_one_program():
    def add(x_ref, o_ref):
        o_ref[...] = x_ref[...] + 10 * pallas.program_id(0) + pallas.program_id(1)

    x = np.zeros((2, 3), F32)
    block = BlockSpec((1, 1), lambda i, j: (i, j))
    call = pallas_call(add, x, grid=(2, 3), in_specs=[block], out_specs=block)
    session = debug(lambda x: call(x))(x).step().jump((1, 2))
    assert session.stack()[-1].run == "(program (1, 2) of grid (2, 3))"
    assert session.blocks()["x_ref"] == "[1, 2] of shape (2, 3)"
    np.testing.assert_array_equal(session.finish(), call(x))
    single = pallas_call(add, x, grid=(1, 1))
    session = debug(lambda x: single(x))(x).step()
    assert session.stack()[-1].run == "(program (0, 0) of grid (1, 1))"
    assert session.jump((0, 0)).blocks()["o_ref"] == "[0:2, 0:3] of shape (2, 3)"


def test_where_a_kernel_makes_a_nan():
    def roots(x_ref, o_ref):
        y = x_ref[...] - 5
        o_ref[...] = jnp.sqrt(-y)

    call = pallas_call(
        roots, pl.ShapeDtypeStruct((8,), F32), grid=2, in_specs=[BLOCK], out_specs=BLOCK
    )
    found = find(lambda x: call(x), isnan)(X[:8])
    assert "sqrt" in str(found)
    assert "o_ref[...] = jnp.sqrt(-y)" in str(found)
    assert "program (1,) of grid (2,)" in str(found)


def test_where_a_kernel_reads_what_was_never_written():
    def adds(x_ref, o_ref, total_ref):
        o_ref[...] = x_ref[...] + total_ref[...]
        total_ref[...] = x_ref[...]

    scratch = [tpu.VMEM((4,), F32)]
    call = pallas_call(
        adds, X[:8], grid=2, in_specs=[BLOCK], out_specs=BLOCK, scratch_shapes=scratch
    )
    found = str(find(lambda x: call(x), isnan)(X[:8]))
    assert "o_ref[...] = x_ref[...] + total_ref[...]" in found
    assert "program (0,)" in found

    def sums(x_ref, o_ref):
        o_ref[...] = jnp.full(4, x_ref[...].sum())

    call = pallas_call(sums, X[:6], grid=2, in_specs=[BLOCK], out_specs=BLOCK)
    found = str(find(lambda x: call(x), isnan)(X[:6]))
    assert "x_ref[...].sum()" in found
    assert "program (1,)" in found


def test_masked_reads_are_no_findings():
    def masked(x_ref, o_ref):
        inside = pallas.program_id(0) * 4 + jnp.arange(4) < 6
        x = pallas.triton.load(x_ref.at[pallas.ds(0, 4)], mask=inside, other=0.0)
        o_ref[...] = jnp.full(4, x.sum())

    call = pallas_call(masked, X[:6], grid=2, in_specs=[BLOCK], out_specs=BLOCK)
    assert find(lambda x: call(x), isnan)(X[:6]) is None


def test_the_prompt_jumps_to_programs_and_says_where_blocks_lie():
    out = io.StringIO()
    Prompt(debug(function)(X).step(), io.StringIO("j 2,\nblocks\nq\n"), out).cmdloop()
    assert "(program (2,) of grid (3,))" in out.getvalue()
    assert "x_ref = [8:12] of shape (10,), partly outside" in out.getvalue()


@pytest.mark.parametrize("check_vma", [True, False])
def test_kernels_within_shard_map_are_stepped_into(check_vma):
    """Their programs' types say nothing of axes, and operands may be alike at all positions."""

    def kernel(x_ref, factor_ref, o_ref):
        x = x_ref[...]
        y = x * factor_ref[...]
        o_ref[...] = y + lax.axis_index("ring")

    mesh = pl.make_mesh((4,), ("ring",), axis_types=(pl.sharding.AxisType.Auto,))
    call = pallas_call(kernel, pl.ShapeDtypeStruct((1, 2), F32))
    function = pl.shard_map(
        lambda x, factor: jnp.sin(call(x, factor)), mesh=mesh, in_specs=(pl.P("ring"), pl.P()),
        out_specs=pl.P("ring"), check_vma=check_vma,
    )  # fmt: skip
    x, factor = np.arange(8, dtype=F32).reshape(4, 2), np.full((1, 2), 3, F32)
    session = debug(function)(x, factor)
    while "y" not in session.variables():
        assert not session.is_done
        session.step()
    shown = session.at(ring=2).variables()
    np.testing.assert_array_equal(np.asarray(shown["y"]), x[2:3] * 3)
    expected = np.sin(x * 3 + np.arange(4, dtype=F32)[:, None])
    np.testing.assert_allclose(session.finish(), expected, rtol=1e-5)
