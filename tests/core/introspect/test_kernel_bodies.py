"""Kernels in records of programs: the body over references, what it costs, and what was made of it."""

import numpy as np
import pytest

import pellucid as pl
from pellucid import analysis
from pellucid._machine.xla import ptxas
from pellucid._machine.xla.plugins import Assembly, PluginMissingError
from pellucid.experimental import pallas
from pellucid.experimental.pallas import BlockSpec, pallas_call, triton
from pellucid.introspect import triton_text
from pellucid_viz.render.program import lens_markup
from pellucid_viz.render.text import lens_text
from tests.introspect.sample_grids import like, product

X = np.ones((64, 64), np.float32)


def equations_of(record, body):
    """Rows of the equations of a body."""
    return range(body.first_equation, body.first_equation + body.equation_count)


def primitives_of(record, body):
    names = record.equations.primitive
    return [record.strings[names[row]] for row in equations_of(record, body)]


def cost(record, name, row=0):
    return next(each.values[row] for each in record.costs if each.name == name)


def test_a_kernel_has_its_body_in_front_of_what_it_stands_for():
    record = analysis.program(product(64, 16), X, X)
    roles = [record.strings[role] for role in record.equations.body_roles[:2]]
    assert roles == ["kernel", "definition"]
    assert record.equations.body_trips[:2] == [64, 1]
    kernel = record.bodies[record.equations.bodies[0]]
    assert primitives_of(record, kernel)[-4:] == ["swap", "eq", "convert_element_type", "cond"]
    names = [record.strings[record.values.user_name[i]] for i in kernel.inputs]
    assert names[-4:] == ["x_ref", "y_ref", "o_ref", "sum_ref"]
    # A derivative of a kernel is a program; its body isn't what runs.
    gradient = analysis.program(pl.grad(lambda x: product(64, 16)(x, X).sum()), X)
    assert "kernel" not in gradient.strings


def test_a_kernel_costs_what_its_programs_compute_and_move():
    record = analysis.program(product(64, 16), X, X)
    [grid] = analysis.kernel_grids(product(64, 16), X, X).kernels
    assert cost(record, "flops") == grid.flops
    assert cost(record, "bytes") == grid.moved_bytes
    # 64 programs with a product of blocks, which is added, and three scalars.
    assert cost(record, "flops") == 64 * (2 * 16**3 + 16**2 + 4)


def kernel_of(spec, body, n=8, **options):
    return pallas_call(
        body, like(n), grid=4, in_specs=[spec], out_specs=BlockSpec((2,), lambda i: (i,)), **options
    )


@pytest.mark.parametrize(
    "spec", [BlockSpec((2,), lambda i: (i,)), BlockSpec((2,), lambda i: (0,)), BlockSpec()]
)
def test_bytes_of_kernels_agree_with_their_grids(spec):
    def body(x_ref, o_ref):
        o_ref[...] = x_ref[:2] * 2

    call, x = kernel_of(spec, body), np.ones(8, np.float32)
    [grid] = analysis.kernel_grids(call, x).kernels
    assert cost(analysis.program(call, x), "bytes") == grid.moved_bytes


def test_a_cost_that_the_user_states_counts():
    def body(x_ref, o_ref):
        o_ref[...] = x_ref[...] * 2

    stated = pallas.CostEstimate(flops=1000, transcendentals=7, bytes_accessed=500)
    call = kernel_of(BlockSpec((2,), lambda i: (i,)), body, cost_estimate=stated)
    record = analysis.program(lambda x: call(x) + 1, np.ones(8, np.float32))
    found = [cost(record, name) for name in ("flops", "transcendentals", "bytes")]
    assert found == [1000, 7, 500]


def test_what_a_kernel_was_compiled_to_is_tied_to_its_body():
    record = analysis.lens(product(64, 16), X, X)
    program = record.programs[0]
    kernel = program.bodies[program.equations.bodies[0]]
    ids = {program.equations.id[row]: row for row in equations_of(program, kernel)}
    linked = [ids[id] for id in record.links[0].source_ids if id in ids]
    names = {program.strings[program.equations.primitive[row]] for row in linked}
    assert {"dot_general", "add", "cond"} <= names


def test_reads_and_writes_of_references_show_their_index():
    def body(x_ref, o_ref):
        o_ref[...] = x_ref[pallas.ds(pallas.program_id(0), 2)]

    record = analysis.program(kernel_of(BlockSpec(), body), np.ones(8, np.float32))
    texts = [record.strings[text] for text in record.equations.param_texts]
    assert "i0:i0+2" in texts


def on_gpu(x_ref, y_ref, o_ref):
    def step(k, total):
        part = pallas.ds(k * 16, 16)
        return total + pallas.dot(x_ref[:, part], y_ref[part, :])

    total = pl.lax.fori_loop(0, 4, step, pl.numpy.zeros(o_ref.shape, np.float32))

    @pallas.when(pallas.program_id(0) > 0)
    def _():
        o_ref[...] = pl.numpy.exp(total - total.max())


def lens_of_kernel():
    call = pallas_call(
        on_gpu, like(64, 64), grid=(4, 4),
        in_specs=[BlockSpec((16, 64), lambda i, j: (i, 0)), BlockSpec((64, 16), lambda i, j: (0, j))],
        out_specs=BlockSpec((16, 16), lambda i, j: (i, j)), compiler_params=triton.CompilerParams(num_warps=2),
    )  # fmt: skip
    return analysis.lens(lambda x, y: call(x, y) + 1, X, X)


def test_a_lens_has_kernels_for_triton_beside_their_lines():
    record = lens_of_kernel()
    assert [each.dialect for each in record.programs][:4] == ["jaxpr", "stablehlo", "hlo", "triton"]
    source, kernel = record.programs[0], record.programs[3]
    equations, strings = kernel.equations, kernel.strings
    # Every line of the text is that of its operation.
    lines = kernel.listing.text.split("\n")
    for text, row in zip(lines, kernel.listing.line_equations, strict=True):
        assert row < 0 or strings[equations.primitive[row]] in text
    assert sorted(row for row in kernel.listing.line_equations if row >= 0) == [
        *range(len(equations.id))
    ]
    # Operations have the line of the user that they were lowered from.
    dot = [strings[p] for p in equations.primitive].index("tt.dot")
    span = equations.span[dot]
    file = kernel.sources[kernel.spans.source[span]]
    line = file.lines[kernel.spans.line[span] - file.first_line]
    assert "pallas.dot" in line
    pairs = {
        b: a for a, b in zip(record.links[3].source_ids, record.links[3].target_ids, strict=True)
    }
    row = source.equations.id.index(pairs[equations.id[dot]])
    assert source.strings[source.equations.primitive[row]] == "dot_general"
    # Other kernels have no such stage, nor those that Triton can't run.
    assert len(analysis.lens(product(64, 16), X, X).programs) == 3


PTX = ".version 8.0\n.target sm_90\n.visible .entry on_gpu()\n{\n\tret;\n}"


def test_a_lens_has_ptx_and_says_what_kernels_need_of_a_gpu(monkeypatch):
    """With what an installed compiler and assembler would say."""
    report = "8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads\nUsed 40 registers"
    monkeypatch.setattr(triton_text, "triton_assembly", lambda *_: Assembly(PTX, 4096))
    monkeypatch.setattr(
        triton_text,
        "resources",
        lambda code, warps: ptxas.resources_of(report, "sm_90", code.shared_bytes, warps),
    )
    record = lens_of_kernel()
    assert [each.dialect for each in record.programs][3:] == ["triton", "ptx"]
    assert record.programs[4].listing.text == PTX
    assert record.notes[3:] == [
        (
            "compute capability 9.0: 40 registers per thread, 4 B spilled, 4,096 B of shared memory, "
            "24 programs at once, occupancy 75%"
        ),
        "",
    ]
    assert [each.target for each in record.links[3:]] == [record.programs[3].key]
    for shown in (lens_markup(record), lens_text(record)):
        assert record.notes[3] in shown
        assert ".visible .entry" in shown


def test_a_lens_says_why_it_has_no_ptx(monkeypatch):
    def missing(*_):
        raise PluginMissingError("no compiler is installed")

    monkeypatch.setattr(triton_text, "triton_assembly", missing)
    record = lens_of_kernel()
    assert [each.dialect for each in record.programs][3:] == ["triton"]
    assert "the kernel `on_gpu` can't be compiled: no compiler is installed." in record.notes[3]
