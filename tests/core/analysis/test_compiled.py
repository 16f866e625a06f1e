"""Executables as records."""

import json

import numpy as np
import pytest

import pellucid as pl
from pellucid import analysis, lax
from pellucid._machine.xla.hlo_text import parse_instruction
from pellucid.analysis.kernels import category_of
from pellucid.introspect.errors import ArgumentTypeError


def test_a_compiled_function_has_phases_cost_memory_and_kernels():
    def f(x):
        return lax.reduce_sum(lax.exp(lax.dot(x, x)), axes=(0, 1))

    record = analysis.compiled(f, np.ones((16, 16), np.float32))
    assert record.cache in ("miss", "disk")
    phases = [phase.name for phase in record.phases]
    assert phases[0] == "trace"
    assert phases[-1] == "compile with XLA"
    assert record.cost.flops >= 2 * 16**3
    assert record.memory.argument_bytes == 1024
    assert record.memory.output_bytes == 4
    assert {kernel.category for kernel in record.kernels} <= {"fusion", "library", "copy", "other"}
    jaxpr = analysis.program(f, np.ones((16, 16), np.float32))
    covered = {i for kernel in record.kernels for i in kernel.equations}
    assert len(covered) == len(jaxpr.equations.id)
    in_program = set(record.program.equations.id)
    assert all(kernel.hlo_equation in in_program for kernel in record.kernels)
    assert json.dumps(record.to_dict())


def test_a_stage_compiled_earlier_has_no_phases():
    stage = pl.jit(lambda x: lax.sin(x)).lower(1.0).compile()
    record = analysis.compiled(stage, with_program=False)
    assert (record.cache, record.phases, record.program) == ("memory", [], None)
    assert record.kernels


def test_kernels_in_loops_are_found():
    def f(x):
        return lax.fori_loop(0, 3, lambda i, c: lax.sin(lax.mul(c, 2.0)), x)

    record = analysis.compiled(f, np.ones(1000, np.float32))
    assert any((kernel.flops, kernel.executions) == (3000, 3) for kernel in record.kernels)


def test_what_is_no_executable_is_refused():
    with pytest.raises(ArgumentTypeError, match="compiled needs"):
        analysis.compiled(3)


@pytest.mark.parametrize(
    ("line", "category"),
    [
        ("  %a = f32[] fusion(%b), kind=kLoop, calls=%c", "fusion"),
        ("  %a = f32[2] all-reduce-start(%b), to_apply=%c", "collective"),
        ('  %a = f32[2] custom-call(%b), custom_call_target="lapack_sgetrf_ffi"', "library"),
        ('  %a = f32[2] custom-call(%b), custom_call_target="mine"', "custom"),
        ("  %a = f32[2] copy(%b)", "copy"),
        ("  %a = f32[2] dot(%b, %c), lhs_contracting_dims={0}", "library"),
        ("  %a = f32[2] add(%b, %c)", "other"),
    ],
)
def test_categories(line, category):
    assert category_of(parse_instruction(line)) == category


def test_a_product_without_metadata_has_the_line_that_its_result_names():
    def f(w, x):
        def body(i, c):
            product = lax.dot(w, c)
            return lax.div(lax.tanh(product), 2.0)

        return lax.fori_loop(0, 4, body, x)

    record = analysis.compiled(f, np.ones((64, 64), np.float32), np.ones(64, np.float32))
    [dot] = [each for each in record.kernels if each.category == "library"]
    assert dot.equations == []
    assert dot.is_line_inferred
    columns = record.program.equations
    spans, row = record.program.spans, columns.id.index(dot.lines[0].equation)
    assert spans.line[columns.span[row]] == f.__code__.co_firstlineno + 2
    assert not any(
        each.lines for each in record.kernels if each.equations and each.category != "fusion"
    )


def test_loops_count_as_often_as_they_run():
    def f(x, w):
        y = x @ w
        return lax.scan(lambda c, _: (lax.tanh(c @ w), None), y, None, length=100)[0]

    w = np.ones((256, 256), np.float32)
    record = analysis.compiled(f, w, w)
    assert record.cost.flops == pytest.approx(101 * 2 * 256**3, rel=0.01)
    assert sorted(k.executions for k in record.kernels if (k.flops or 0) > 1e6) == [1, 100]


def lines_of(record):
    """The flops of each line of the user, by its text."""
    equations, lines = record.program.equations, {}
    for kernel in record.kernels:
        parts = [(p.equation, p.share) for p in kernel.lines] or [(kernel.hlo_equation, 1.0)]
        for equation, share in parts:
            span = equations.span[equations.id.index(equation)]
            number = record.program.spans.line[span] if span >= 0 else None
            lines[number] = lines.get(number, 0.0) + share * (kernel.flops or 0.0)
    return lines


def test_a_fused_kernel_is_shared_by_the_lines_in_it():
    def f(x, w):
        y = x @ w
        return y.sum()

    w = np.ones((256, 256), np.float32)
    lines = lines_of(analysis.compiled(f, w, w))
    first = f.__code__.co_firstlineno
    assert lines[first + 1] > 0.99 * sum(lines.values())


def test_transcendentals_and_bytes_of_loops_count_as_often_as_they_run():
    def f(x):
        return lax.scan(lambda c, row: (lax.tanh(c + row), c * 2.0), x[0], x)

    x = np.ones((100, 1000), np.float32)
    cost = analysis.compiled(f, x).cost
    assert cost.transcendentals == 100 * 1000
    # Each run reads a row and writes one: a kernel that takes or replaces a part of an array moves that part.
    assert cost.bytes_accessed < 20 * x.nbytes
    assert not cost.is_least


def test_of_branches_the_dearest_counts():
    def f(x):
        return lax.cond(x[0, 0] > 0, lambda x: x @ x, lambda x: lax.tanh(x) + x @ x @ x, x)

    record = analysis.compiled(f, np.ones((64, 64), np.float32))
    assert record.cost.flops == pytest.approx(2 * 2 * 64**3, rel=0.02)
    products = [each for each in record.kernels if each.flops >= 2 * 64**3]
    assert {each.executions for each in products} == {None}


def test_loops_of_unknown_length_count_once_and_say_so():
    def f(x):
        return lax.while_loop(lambda c: c[0, 0] < 9.0, lambda c: c @ x, x)

    figure = pl.viz.compiled(f)(np.ones((64, 64), np.float32))
    assert figure.record.cost.is_least
    assert figure.record.cost.flops == pytest.approx(2 * 64**3, rel=0.01)
    assert "work (estimate): at least 524" in repr(figure)
    assert "runs not known" in repr(figure)
