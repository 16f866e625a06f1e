"""StableHLO and optimized HLO as records, and what links them to equations."""

import numpy as np
import pytest

import pellucid as pl
from pellucid import analysis, lax
from pellucid._machine.base.errors import ArgumentValueError
from pellucid._machine.xla import hlo_text
from pellucid.analysis.opcodes import OPERATIONS, opcode_of
from tests.introspect.costs import total_cost

X = np.ones((4, 3), np.float32)


def function(x, xs):
    with pl.named_scope("head"):
        h = lax.dot(x, lax.transpose(x, (1, 0)))
        h = lax.tanh(lax.mul(h, 0.5))
    inner = pl.jit(lambda a: lax.exp(a))

    def step(carry, x):
        return lax.add(carry, lax.mul(x, 3.0)), lax.sin(carry)

    total, sines = lax.scan(step, np.float32(1), xs)
    return inner(h), lax.sort(xs), total, sines


ARGS = (X, np.arange(5, dtype=np.float32))


@pytest.fixture(scope="module")
def stages():
    lowered = pl.jit(function).lower(*ARGS)
    return lowered, lowered.compile()


def texts(record, indices):
    return [record.strings[i] for i in indices]


def test_a_module_has_functions_and_regions_as_bodies(stages):
    record = analysis.program(stages[0])
    assert record.dialect == "stablehlo"
    assert [body.name for body in record.bodies][:2] == ["main", "_lambda_"]
    roles = texts(record, record.equations.body_roles)
    assert {"callee", "cond", "body"} <= set(roles)
    assert len(record.equations.id) == sum(body.equation_count for body in record.bodies)


def test_each_line_of_a_module_belongs_to_its_operation(stages):
    record = analysis.program(stages[0])
    lines = record.listing.text.split("\n")
    assert len(lines) == len(record.listing.line_equations)
    seen = []
    for line, row in zip(lines, record.listing.line_equations):
        if row < 0:
            continue
        seen.append(row)
        operation = record.strings[record.equations.primitive[row]]
        assert operation.removeprefix("func.") in line
        start = sum(record.equations.result_counts[:row])
        for value in record.equations.results[start : start + record.equations.result_counts[row]]:
            assert record.strings[record.values.name[value]].partition("#")[0] in line
    assert sorted(seen) == list(range(len(record.equations.id)))


def test_every_value_of_a_module_has_the_name_of_its_text(stages):
    record = analysis.program(stages[0])
    assert all(name.startswith("%") or name == "_" for name in texts(record, record.values.name))
    inputs = record.bodies[0].inputs
    assert texts(record, [record.values.name[i] for i in inputs]) == ["%arg0", "%arg1"]


def test_operations_carry_the_equation_its_scope_and_its_span(stages):
    record = analysis.program(stages[0])
    names = texts(record, record.equations.primitive)
    row = names.index("stablehlo.dot_general")
    assert record.strings[record.scopes.name[record.equations.scope[row]]] == "head"
    span = record.equations.span[row]
    source = record.sources[record.spans.source[span]]
    assert "lax.dot(x" in source.lines[record.spans.line[span] - source.first_line]
    assert record.costs[0].values[row] == 2 * 4 * 4 * 3


def test_a_loop_of_known_length_multiplies_the_cost_of_its_body(stages):
    for stage, name in zip(stages, ("stablehlo.while", "while")):
        record = analysis.program(stage)
        row = texts(record, record.equations.primitive).index(name)
        assert record.costs[1].values[row] == 5  # one sine in each of five iterations


@pytest.mark.parametrize(
    ("loop", "sines"),
    [
        (lambda x: lax.scan(lambda c, _: (lax.sin(c), None), x, None, length=7)[0], 7),
        (lambda x: lax.scan(lambda c, _: (lax.sin(c), None), x, None, length=7, unroll=3)[0], 7),
        (lambda x: lax.fori_loop(2, 6, lambda i, c: lax.sin(c), x), 4),
        (lambda x: lax.while_loop(lambda c: c[0] < 9, lambda c: (c[0] + 2, lax.sin(c[1])), (0, x))[1], 5),
        (lambda x: lax.while_loop(lambda c: c < 3, lax.sin, x), None),
        (lambda x: lax.while_loop(lambda c: c[1] < 3, lambda c: (c[0] + 1, lax.sin(c[1])), (0, x))[1], None),
    ],
)  # fmt: skip
def test_iterations_are_read_from_the_loop_itself(loop, sines):
    record = analysis.program(pl.jit(loop).lower(np.float32(1)))
    if sines is None:
        assert set(record.equations.body_trips) == {None}
    else:
        assert total_cost(record, "transcendentals") == sines


def test_what_a_rule_defines_in_python_belongs_to_its_equation(stages):
    """The comparator of `sort` is traced while lowering; its operations are the sort's."""
    jaxpr = analysis.program(pl.jit(function).trace(*ARGS))
    sort = jaxpr.equations.id[texts(jaxpr, jaxpr.equations.primitive).index("sort")]
    for stage in stages:
        record = analysis.program(stage)
        origins, start = [], 0
        for name, count in zip(
            texts(record, record.equations.primitive), record.equations.origin_counts
        ):
            if "compare" in name:
                origins += record.equations.origins[start : start + count]
            start += count
        assert sort in origins
        assert set(origins) <= set(jaxpr.equations.id)


def test_records_state_the_kind_of_each_operation(stages):
    jaxpr = analysis.program(function, *ARGS)
    records = [jaxpr, *map(analysis.program, stages)]
    assert all(r.kinds.keys() == set(texts(r, r.equations.primitive)) for r in records)
    assert records[0].kinds["dot_general"] == records[1].kinds["stablehlo.dot_general"]
    assert (records[0].kinds["scan"], records[1].kinds["stablehlo.while"]) == ("control",) * 2
    assert records[2].kinds["while"] == "control"
    names = {opcode_of(name) for r in records[1:] for name in r.kinds}
    assert names <= OPERATIONS.keys()


def test_a_fusion_holds_its_members(stages):
    record = analysis.program(stages[1])
    names = texts(record, record.equations.primitive)
    assert "fusion" in names
    row = names.index("fusion")
    use = sum(record.equations.body_counts[:row])
    assert record.strings[record.equations.body_roles[use]] == "calls"
    assert record.bodies[record.equations.bodies[use]].equation_count > 0


def test_each_line_of_optimized_hlo_belongs_to_its_instruction(stages):
    record = analysis.program(stages[1])
    actual = [row for row in record.listing.line_equations if row >= 0]
    assert sorted(actual) == list(range(len(record.equations.id)))


@pytest.mark.parametrize(
    "line",
    [
        '  %a.1 = (f32[2]{0}, /*index=1*/s32[]) custom-call(%b, %c), custom_call_target="x, (y", metadata={op_name="f/g#e3"}',
        "  ROOT %t = f32[] constant(1e-05)",
        "  %p = f32[3]{0:T(256)} parameter(12), sharding={replicated}",
        '  %w = (s32[]) while(%t), condition=%c.1, body=%b.1, backend_config={"n":{"a":"1"}}',
        "  %s = f32[3,4]{1,0} constant({ { 1, 2 }, { 3, 4 } })",
    ],
)
def test_unusual_instructions_are_read(line):
    instruction = hlo_text.parse_instruction(line)
    assert instruction is not None
    by_opcode = {
        "custom-call": lambda i: i.operands == ["b", "c"] and (i.path, i.equation) == ("f/g", 3),
        "constant": lambda i: bool(i.payload) and not i.operands,
        "parameter": lambda i: i.payload == "12" and i.attributes == {"sharding": "{replicated}"},
        "while": lambda i: i.called == [("condition", "c.1"), ("body", "b.1")],
    }
    assert by_opcode[instruction.opcode](instruction)


def test_lines_that_are_no_instruction_are_none():
    assert hlo_text.parse_instruction("}") is None
    assert hlo_text.parse_instruction("%f (a: f32[]) -> f32[] {") is None


def test_the_lens_links_every_equation_to_its_operations():
    record = analysis.lens(function, *ARGS)
    jaxpr, module, optimized = record.programs
    assert [p.dialect for p in record.programs] == ["jaxpr", "stablehlo", "hlo"]
    lower, compile_, direct = record.links
    assert (lower.source, lower.target) == (jaxpr.key, module.key)
    assert (compile_.source, compile_.target) == (module.key, optimized.key)
    assert set(lower.source_ids) == set(jaxpr.equations.id)
    assert set(lower.target_ids) == set(module.equations.id)
    assert set(compile_.target_ids) <= set(optimized.equations.id)
    names = dict(zip(jaxpr.equations.id, texts(jaxpr, jaxpr.equations.primitive)))
    opcodes = dict(zip(optimized.equations.id, texts(optimized, optimized.equations.primitive)))
    pairs = {(names[a], opcodes[b]) for a, b in zip(direct.source_ids, direct.target_ids)}
    assert {("tanh", "tanh"), ("exp", "exponential"), ("sin", "sine"), ("sort", "sort")} <= pairs


def test_the_ladder_ties_each_equation_to_the_one_it_came_from():
    def f(x, y):
        h = lax.sin(x)
        return lax.mul(h, y)

    record = analysis.ladder(f, X, X)
    assert record.transformations == ["", "jvp", "linearize", "transpose", "vmap"]
    base = record.programs[0]
    names = dict(zip(base.equations.id, texts(base, base.equations.primitive)))
    for program in record.programs[1:]:
        [link] = [
            each for each in record.links if (each.source, each.target) == (base.key, program.key)
        ]
        assert set(link.target_ids) == set(program.equations.id)
        assert {names[i] for i in link.source_ids} == {"sin", "mul"}
    assert record.sources == [-1, 0, 0, 2, 0]
    linear, transposed = record.programs[2:4]
    [link] = [
        each for each in record.links if (each.source, each.target) == (linear.key, transposed.key)
    ]
    pairs = dict(zip(link.target_ids, link.source_ids, strict=True))
    operations = [
        dict(zip(each.equations.id, texts(each, each.equations.primitive), strict=True))
        for each in (transposed, linear)
    ]
    assert {(operations[0][a], operations[1][b]) for a, b in pairs.items()} == {("mul", "mul")}
    reversed_ = record.programs[3]
    assert set(texts(reversed_, reversed_.equations.transformation)) == {"transpose"}
    keys = [program.key for program in record.programs]
    assert len(set(keys)) == 5


def test_unknown_transformations_are_refused():
    with pytest.raises(ArgumentValueError, match="no transformation 'grad'"):
        analysis.ladder(lambda x: x, 1.0, transformations=("grad",))


def test_diff_matches_what_is_the_same():
    jaxpr = pl.make_jaxpr(lambda x: lax.sin(lax.cos(x)))(1.0)
    record = analysis.diff(jaxpr, jaxpr)
    assert record.matches.source_ids == record.matches.target_ids == [e.id for e in jaxpr.equations]
    other = analysis.diff(lambda x: lax.sin(x), lambda x: lax.cos(x), 1.0)
    assert other.matches is None
    assert (other.before.key, other.after.key) == ("before", "after")


def test_a_ladder_varies_arguments_and_not_values_from_outside() -> None:
    """A function with its own derivative may use such a value, of which it has none."""
    outside = pl.numpy.arange(6.0)

    @pl.custom_vjp
    def scaled(x):
        return (x * outside).sum()

    scaled.defvjp(lambda x: (scaled(x), None), lambda _, g: (g * outside,))
    record = pl.analysis.ladder(
        lambda x: scaled(x) * outside.sum(), np.ones(6, np.float32), transformations=("linearize",)
    )
    assert record.transformations == ["", "linearize"]
