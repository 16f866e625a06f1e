"""Dead code, inlining, constants as inputs."""

import numpy as np

from pellucid._machine.higher_order.jitted import jit
from pellucid._machine.ir.avals import shaped_array
from pellucid._machine.ir.checking import check_jaxpr
from pellucid._machine.ir.jaxpr import ClosedJaxpr
from pellucid._machine.ir.rewriting import (
    constants_as_inputs,
    inline_programs,
    remove_dead_equations,
)
from pellucid._machine.primitives.arithmetic import add, mul
from pellucid._machine.primitives.transcendental import cos, sin
from pellucid._machine.tracing.staging import replay, stage

VECTOR = shaped_array((3,), np.dtype(np.float32))
X = np.arange(3, dtype=np.float32)


def names(jaxpr) -> list[str]:
    return [e.primitive.name for e in jaxpr.equations]


def test_equations_that_no_result_needs_are_removed() -> None:
    jaxpr, _ = stage(lambda x, y: [sin(x), add(cos(x), y)], [VECTOR, VECTOR])
    pruned, used = remove_dead_equations(jaxpr, [True, False])
    assert names(pruned) == ["sin"]
    assert used == [True, False]
    assert len(pruned.invars) == 1
    check_jaxpr(pruned)


def test_inputs_are_kept_on_request() -> None:
    jaxpr, _ = stage(lambda x, y: [sin(x)], [VECTOR, VECTOR])
    pruned, used = remove_dead_equations(jaxpr, keep_inputs=True)
    assert used == [True, True]
    assert len(pruned.invars) == 2


def test_dead_results_of_inner_programs_are_removed_inside() -> None:
    inner = jit(lambda x: (sin(x), cos(x)))
    jaxpr, _ = stage(lambda x: [inner(x)[0]], [VECTOR])
    pruned, _ = remove_dead_equations(jaxpr)
    [call] = pruned.equations
    assert names(call.params.jaxpr.jaxpr) == ["sin"]
    assert len(call.results) == 1
    check_jaxpr(pruned)


def test_inlining_keeps_values_and_facts() -> None:
    inner = jit(lambda x: mul(sin(x), x))
    jaxpr, consts = stage(lambda x: [add(inner(x), inner(inner(x)))], [VECTOR])
    flat, more = inline_programs(
        jaxpr, lambda e: e.params.jaxpr if e.primitive.name == "jit" else None
    )
    assert "jit" not in names(flat)
    assert all(e.source is not None for e in flat.equations)
    check_jaxpr(flat)
    np.testing.assert_array_equal(replay(flat, [*consts, *more], X)[0], replay(jaxpr, consts, X)[0])


def test_constants_become_the_first_inputs() -> None:
    constant = np.ones(3, np.float32) * 2
    jaxpr, consts = stage(lambda x: [mul(x, constant)], [VECTOR])
    opened = constants_as_inputs(jaxpr)
    assert len(consts) == 1
    assert opened.constvars == ()
    np.testing.assert_array_equal(replay(opened, (), consts[0], X)[0], X * 2)


def test_a_closed_program_shows_its_types() -> None:
    program = ClosedJaxpr(*stage(lambda x: [sin(x)], [VECTOR]))
    assert program.in_avals == (VECTOR,)
    assert program.out_avals == (VECTOR,)
    assert len(program.eqns) == 1
