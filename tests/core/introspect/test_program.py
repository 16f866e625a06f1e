"""Jaxprs as records."""

import json
import time

import numpy as np
import pytest

import pellucid as pl
from pellucid import analysis, lax
from pellucid._machine.base.errors import ArgumentTypeError
from tests.introspect.costs import total_cost

X = np.ones(3, np.float32)


def dense(w, x):
    return lax.add(lax.dot(w, x), 1.0)


def model(w, x):
    with pl.named_scope("first"):
        hidden = dense(w, x)
    scaled = lax.mul(hidden, 2.0)
    low, high = lax.neg(scaled), lax.exp(scaled)
    hidden = lax.tanh(low)
    hidden += high
    return hidden


def rows(record):
    """For each equation its primitive and the user's names of its results."""
    texts, equations, start, actual = record.strings, record.equations, 0, []
    for primitive, count in zip(equations.primitive, equations.result_counts):
        results = equations.results[start : start + count]
        actual.append((texts[primitive], [texts[record.values.user_name[r]] for r in results]))
        start += count
    return actual


@pytest.fixture(scope="module")
def record():
    return analysis.program(model, np.ones((2, 3), np.float32), X)


def test_variables_have_the_names_of_the_users_source(record):
    assert rows(record) == [
        ("dot_general", [""]), ("add", ["hidden"]), ("mul", ["scaled"]), ("neg", ["low"]),
        ("exp", ["high"]), ("tanh", ["hidden"]), ("add", ["hidden"]),
    ]  # fmt: skip
    inputs = [record.strings[record.values.user_name[i]] for i in record.bodies[0].inputs]
    assert inputs == ["w", "x"]


def test_a_span_names_its_line_its_function_its_variable_and_its_callers(record):
    span, spans, texts = record.equations.span[0], record.spans, record.strings
    assert texts[spans.function[span]] == "dense"
    source = record.sources[spans.source[span]]
    line = source.lines[spans.line[span] - source.first_line]
    assert line[spans.column[span] : spans.end_column[span]] == "lax.dot(w, x)"
    caller = spans.caller[span]
    assert texts[spans.function[caller]] == "model"
    assert texts[spans.variable[caller]] == "hidden"
    assert texts[spans.variable[span]] == ""


def test_scopes_are_a_tree(record):
    texts = record.strings
    assert [texts[i] for i in record.scopes.name] == ["first"]
    assert record.equations.scope == [0, 0, -1, -1, -1, -1, -1]


def test_the_listing_is_the_programs_text_and_knows_its_equations(record):
    jaxpr = pl.make_jaxpr(model)(np.ones((2, 3), np.float32), X)
    lines = record.listing.text.split("\n")
    assert record.listing.text == str(jaxpr)
    assert len(lines) == len(record.listing.line_equations)
    for line, row in zip(lines, record.listing.line_equations):
        if row >= 0:
            assert record.strings[record.equations.primitive[row]] in line
    assert [row for row in record.listing.line_equations if row >= 0] == list(range(7))


def test_value_names_are_those_of_the_listing(record):
    names = [record.strings[i] for i in record.values.name]
    assert names == list("abcdefghi")


def test_costs_are_those_of_each_equation(record):
    costs = {column.name: column.values for column in record.costs}
    assert costs["flops"] == [12, 2, 2, 2, 0, 0, 2]
    assert costs["transcendentals"] == [0, 0, 0, 0, 2, 2, 0]
    assert costs["bytes"][0] == 4 * (6 + 3 + 2)


def test_a_value_named_in_a_loop_keeps_its_name_each_time():
    def f(x):
        for _ in range(3):
            y = mean(x)
            x = lax.sub(x, y)
        return x

    def mean(x):
        total = lax.reduce_sum(x, axes=(0,))
        return lax.div(total, 3.0)

    actual = rows(analysis.program(f, X))
    assert actual[:4] == [
        ("reduce_sum", ["total"]),
        ("div", ["y"]),
        ("sub", ["x"]),
        ("reduce_sum", ["total"]),
    ]
    assert [names for name, names in actual if name == "div"] == [["y"]] * 3


def test_results_that_are_unpacked_have_their_own_names():
    def f(x):
        values, indices = lax.top_k(x, 2)
        low, high = both(values)
        return lax.add(low, high), indices

    def both(x):
        return lax.neg(x), lax.exp(x)

    assert rows(analysis.program(f, X))[:3] == [
        ("top_k", ["values", "indices"]), ("neg", ["low"]), ("exp", ["high"])
    ]  # fmt: skip


def test_programs_within_are_bodies_that_calls_share():
    @pl.jit
    def layer(x):
        y = lax.sin(x)
        return lax.mul(y, 2.0)

    def f(x):
        first = layer(x)
        second = layer(first)
        return second  # noqa: RET504

    record = analysis.program(f, X)
    assert [body.name for body in record.bodies] == ["f", "layer"]
    assert record.equations.bodies == [1, 1]
    assert record.equations.body_trips == [1, 1]
    assert rows(record) == [("jit", ["first"]), ("jit", ["second"]), ("sin", ["y"]), ("mul", [""])]
    flops = record.costs[0].values
    assert flops == [3, 3, 0, 3]


def test_control_flow_says_how_often_bodies_run():
    def f(x, xs):
        carry, ys = lax.scan(lambda c, x: (lax.add(c, x), lax.exp(c)), x, xs)
        picked = lax.cond(True, lambda c: lax.exp(c), lambda c: lax.mul(lax.mul(c, c), c), carry)
        return lax.while_loop(lambda c: lax.lt(c, 3.0), lambda c: lax.add(c, 1.0), picked), ys

    record = analysis.program(f, np.float32(0), X)
    texts = record.strings
    uses = [
        (texts[role], trips)
        for role, trips in zip(record.equations.body_roles, record.equations.body_trips)
    ]
    assert ("jaxpr", 3) in uses
    assert ("branches[0]", None) in uses
    assert ("cond_jaxpr", None) in uses
    costs = dict(
        zip([name for name, _ in rows(record)], zip(*(column.values for column in record.costs)))
    )
    assert costs["scan"][:2] == (3, 3)
    assert costs["cond"][:2] == (2, 1)
    assert costs["while"] == (None, None, None)


def test_a_scan_does_not_lend_its_results_names_to_its_body():
    def f(xs):
        def step(carry, x):
            return lax.add(carry, x), lax.sin(x)

        total, sines = lax.scan(step, np.float32(0), xs)
        return total, sines

    actual = rows(analysis.program(f, X))
    assert ("scan", ["total", "sines"]) in actual
    assert ("sin", ["result[1]"]) in actual


def test_params_literals_and_types():
    record = analysis.program(lambda x: lax.reduce_max(lax.mul(x, 2.5), axes=(0,)), X)
    texts = record.strings
    assert ("axes", "(0,)") in [
        (texts[a], texts[b])
        for a, b in zip(record.equations.param_names, record.equations.param_texts)
    ]
    assert [texts[i] for i in record.literals.text] == ["2.5"]
    assert record.equations.operands[1] == -1
    types = {t.text: t for t in record.types}
    assert types["f32[3]"].bytes == 12
    assert types["f32[3]"].shape == [3]


def test_effects_constants_and_stable_ids():
    table = pl.jit(lambda: lax.full((3,), 2.0))()
    jaxpr = pl.make_jaxpr(lambda x: lax.add(x, table))(X)
    first, second = analysis.program(jaxpr), analysis.program(jaxpr)
    assert len(first.bodies[0].constants) == 1
    assert first.equations.id == second.equations.id == [e.id for e in jaxpr.equations]
    assert first.to_dict() == second.to_dict()


def test_an_equation_copied_twice_gets_an_id_of_its_own():
    square = pl.jit(lambda x: lax.mul(x, x), inline=True)
    jaxpr = pl.make_jaxpr(lambda x: square(square(x)))(X)
    record = analysis.program(jaxpr)
    assert len(set(record.equations.id)) == len(record.equations.id) == 2


def test_stages_jaxprs_and_functions_are_programs():
    jitted = pl.jit(model)
    args = np.ones((2, 3), np.float32), X
    traced = jitted.trace(*args)
    expected = rows(analysis.program(model, *args))
    assert rows(analysis.program(traced)) == expected
    assert rows(analysis.program(traced.jaxpr)) == expected
    assert rows(analysis.program(jitted, *args)) == expected
    assert analysis.program(traced).name == "model"


@pytest.mark.parametrize("inputs", [(3,), (None,), ("text",)])
def test_what_is_no_program_is_refused(inputs):
    with pytest.raises(ArgumentTypeError, match="program needs"):
        analysis.program(*inputs)


def test_arguments_after_a_program_are_refused():
    with pytest.raises(ArgumentTypeError, match="takes no example arguments"):
        analysis.program(pl.make_jaxpr(lambda x: x)(1.0), 2.0)


def test_programs_without_equations():
    record = analysis.program(lambda x: x, X)
    assert record.equations.id == []
    assert record.bodies[0].outputs == record.bodies[0].inputs
    assert json.dumps(record.to_dict())
    assert analysis.program(lambda: ()).bodies[0].outputs == []


def test_text_can_be_left_out(record):
    bare = analysis.program(
        model, np.ones((2, 3), np.float32), X, listing=False, source_lines=False
    )
    assert bare.listing is None
    assert all(source.lines is None for source in bare.sources)
    assert rows(bare) == rows(record)


def deep(n):
    def f(x, w):
        for i in range(n // 4):
            with pl.named_scope(f"layer_{i % 24}"):
                h = lax.dot(x, w)
                h = lax.tanh(h)
            h = lax.mul(h, 0.5)
            x = lax.add(h, x)
        return x

    return pl.make_jaxpr(f)(np.ones((8, 8), np.float32), np.ones((8, 8), np.float32))


def test_ten_thousand_equations_are_quick_and_small():
    small, large = deep(1_000), deep(10_000)
    seconds = []
    for jaxpr in (small, large):
        start = time.process_time()
        record = analysis.program(jaxpr)
        seconds.append(time.process_time() - start)
    assert len(record.equations.id) == 10_000
    assert len(json.dumps(record.to_dict())) < 3_000_000
    assert seconds[1] < 60 * seconds[0]  # 100 times as long where it is quadratic


def test_a_shared_body_is_counted_once_however_often_it_is_called():
    inner = pl.jit(lambda x: lax.sin(x))

    def doubled(f, depth):
        return f if depth == 0 else doubled(pl.jit(lambda x: f(f(x))), depth - 1)

    jaxpr = pl.make_jaxpr(doubled(inner, 20))(X)
    record = analysis.program(jaxpr)
    assert total_cost(record, "transcendentals") == 3 * 2**20
    assert len(record.bodies) == 22
