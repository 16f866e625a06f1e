"""A value has a user's name only if the user's function bound it to that name."""

from __future__ import annotations

import sys
from typing import Any, Self

import numpy as np
import pytest
from corpus import models
from rotation import rotating

import pellucid as pl
from pellucid._machine.ir.jaxpr import Var
from pellucid._machine.tracing.staging import StagingTracer
from pellucid._machine.transforms import linearize_jaxpr
from pellucid.analysis.comparisons import transform_program
from pellucid.introspect.bodies import programs_within
from pellucid.introspect.lineage import Made, transformation_of
from pellucid.introspect.program import argument_names, read_jaxpr, value_names
from pellucid.tree_util import keystr, tree_leaves_with_path


class Bindings:
    """While it is entered: the variables of a program that local names of functions in `file` hold, as `carry['h']`."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.names: dict[Any, set[str]] = {}
        self.functions: set[str] = set()
        """Qualified names of the functions that ran."""

    def __enter__(self) -> Self:
        self._outer = sys.gettrace()
        sys.settrace(self._called)
        return self

    def __exit__(self, *exception: object) -> None:
        sys.settrace(self._outer)

    def _called(self, frame, event, argument):
        return self._at if frame.f_code.co_filename == self.file else None

    def _at(self, frame, event, argument):
        self.functions.add(frame.f_code.co_qualname)
        for name, value in frame.f_locals.items():
            for path, leaf in tree_leaves_with_path(value, is_leaf=lambda x: hasattr(x, "aval")):
                while type(leaf) is not StagingTracer and hasattr(leaf, "_trace"):
                    leaf = getattr(leaf, "primal", getattr(leaf, "value", None))
                if type(leaf) is StagingTracer:
                    self.names.setdefault(leaf.variable, set()).add(name + keystr(path))
        return self._at


@pytest.mark.parametrize(
    ("program", "arguments"),
    rotating(models.PROGRAMS, lambda _: ""),
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_names_are_those_that_the_users_function_binds(program, arguments) -> None:
    with Bindings(program.__code__.co_filename) as bindings:
        traced = pl.make_jaxpr(lambda *xs: program(pl, *xs))(*arguments)
    violations = []
    for jaxpr in programs_within(traced.jaxpr):
        staged = {v for e in jaxpr.equations if e.lineage is None for v in e.results}
        for variable, name in value_names(jaxpr).items():
            if variable not in staged or variable in argument_names(jaxpr):
                continue
            if name.function not in bindings.functions:
                continue  # another test traced it, and its program was taken
            if name.name not in bindings.names.get(variable, ()):
                violations.append((name, variable.aval.text(), bindings.names.get(variable)))
    assert violations == []


def test_derivatives_take_no_name_of_the_line_that_they_are_of() -> None:
    def layer(w, x):
        y = pl.numpy.tanh(x @ w)
        return y + x

    def step(w, x):
        loss, grads = pl.value_and_grad(lambda w: (layer(w, x) ** 2).mean())(w)
        updated = w - 0.1 * grads
        return loss, updated

    jaxpr = pl.make_jaxpr(step)(np.ones((3, 3)), np.ones((2, 3))).jaxpr
    names = value_names(jaxpr)
    primitives = {
        names[v].name: e.primitive.name for e in jaxpr.equations for v in e.results if v in names
    }
    derived = {"d(w)": "transpose", "d(y)": "mul", "result[0]": "div"}
    assert primitives == {"y": "tanh", "updated": "sub"} | derived


# Cotangents


def perceptron(params, x, labels):
    hidden = pl.numpy.tanh(x @ params["w1"] + params["b1"])
    logits = hidden @ params["w2"]
    logp = logits - pl.nn.logsumexp(logits, axis=-1, keepdims=True)
    return -(logp * labels).sum(-1).mean()


def shared(params, x, labels):
    """Every value is used more than once."""
    first = pl.numpy.sin(x @ params["w1"])
    second = first * (first @ params["w1"][:3]) + first
    logits = second @ params["w2"] + first @ params["w2"]
    return ((logits - labels) ** 2).sum() + (second**2).sum() + (params["b1"] * first).sum()


def looped(params, x, labels):
    def step(h, _):
        inner = pl.numpy.cos(h * params["b1"])
        return inner, inner.sum()

    last, sums = pl.lax.scan(step, x @ params["w1"], None, length=3)
    logits = pl.checkpoint(lambda last: last @ params["w2"])(last)
    return ((logits - labels) ** 2).mean() + sums.max()


@pl.jit
def block(w, x):
    """A call whose argument is used inside and passed on by an addition."""
    inner = pl.numpy.tanh(x @ w)
    return inner + x


@pl.custom_jvp
def clipped(x):
    return pl.numpy.minimum(x, 1.0)


clipped.defjvp(lambda primals, tangents: (clipped(*primals), tangents[0] * 0.5))


def called(params, x, labels):
    hidden = x @ params["w1"]
    first = block(params["w1"][:3], hidden)
    second = block(params["w1"][1:], first) - hidden
    third = clipped(second) * second - pl.numpy.where(second > 0, second, hidden)
    logits = third @ params["w2"]
    return ((logits - labels) ** 2).mean() - (params["b1"] - first).sum()


@pl.jit
def gated(gate, x, shift):
    return pl.numpy.tanh(x * gate) + shift, {"gated": x * gate}


def together(params, x, labels):
    """Calls and loops that take several values of one type."""
    hidden = x @ params["w1"]
    gate, shift = hidden[0], hidden[1] * params["b1"]
    first, rest = gated(gate, params["b1"], shift)
    second, _ = gated(first, rest["gated"], gate)

    def step(carry, row):
        h, total = carry["h"], carry["total"]
        h = pl.numpy.tanh(h * first + row)
        return {"h": h, "total": total + h * second}, {"h": h}

    last, out = pl.lax.scan(step, {"h": second, "total": shift}, hidden)
    return (
        (last["total"] @ params["w2"]).sum() + (out["h"] ** 2).mean() + (labels * first[:2]).sum()
    )


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        (together, {"gate", "shift", "first", "second", "last['total']", "out['h']"}),
        (called, {"params['w1']", "params['w2']", "params['b1']", "hidden", "logits"}),
        (perceptron, {"params['w1']", "params['b1']", "params['w2']", "hidden", "logits", "logp"}),
        (shared, {"params['b1']", "first", "second", "logits", "params['w1']", "params['w2']"}),
        (looped, {"params['w1']", "params['b1']", "params['w2']"}),
    ],
)
def test_a_cotangent_is_the_derivative_by_the_value_that_it_is_named_of(loss, expected) -> None:
    random = np.random.default_rng(3)
    shapes = {"w1": (4, 3), "b1": (3,), "w2": (3, 2)}
    params = {name: random.normal(size=shape) for name, shape in shapes.items()}
    arguments = (params, random.normal(size=(5, 4)), random.normal(size=(5, 2)))
    program = pl.make_jaxpr(pl.value_and_grad(loss))(*arguments)
    jaxpr, operands = program.jaxpr, pl.tree.leaves(arguments)
    names = {v: name.name for v, name in value_names(jaxpr).items()}
    variables = {name: v for v, name in names.items()}
    cotangents = {v: names[v][2:-1] for v in names if names[v].startswith("d(")}
    assert {*cotangents.values()} >= expected
    forward = [e for e in jaxpr.equations if transformation_of(e) != "transpose"]
    everything = jaxpr.replace(outvars=[*cotangents])
    values = pl.core.eval_jaxpr(everything, program.consts, *operands)
    for value, name in zip(values, cotangents.values(), strict=True):
        primal = variables[name]
        # The same program, in which the value is one more argument instead of a result.
        rest = [
            e.replace(results=[Var(v.aval) if v is primal else v for v in e.results])
            for e in forward
        ]
        inputs = [v for v in jaxpr.invars if v is not primal]
        remaining = [x for v, x in zip(jaxpr.invars, operands, strict=True) if v is not primal]
        opened = jaxpr.replace(invars=[primal, *inputs], equations=rest, outvars=jaxpr.outvars[:1])
        point = pl.core.eval_jaxpr(jaxpr.replace(outvars=[primal]), program.consts, *operands)[0]
        derivative = pl.grad(
            lambda x, opened=opened, remaining=remaining: pl.core.eval_jaxpr(
                opened, program.consts, x, *remaining
            )[0]
        )(point)
        np.testing.assert_allclose(value, derivative, rtol=1e-5, atol=1e-6, err_msg=name)


def test_cotangents_within_calls_and_loops_have_names() -> None:
    def loss(params, x, labels):
        return called(params, x, labels) + looped(params, x, labels)

    shapes = {"w1": (4, 3), "b1": (3,), "w2": (3, 2)}
    params = {name: np.ones(shape) for name, shape in shapes.items()}
    record = pl.analysis.program(pl.grad(loss), params, np.ones((5, 4)), np.ones((5, 2)))
    names = [record.strings[i] for i in record.values.user_name]
    assert {"d(inner)", "d(w)", "d(params['b1'])"} <= {*names}


@pytest.mark.parametrize(
    ("program", "arguments"), models.PROGRAMS, ids=lambda x: getattr(x, "__name__", "")
)
def test_cotangents_have_the_type_of_their_values(program, arguments) -> None:
    record = pl.analysis.program(lambda *xs: program(pl, *xs), *arguments)
    types: dict[str, set[tuple]] = {}
    for name, kind in zip(record.values.user_name, record.values.type, strict=True):
        of = record.types[kind]
        types.setdefault(record.strings[name], set()).add((of.dtype, *(of.shape or ())))
    for name, of in types.items():
        if name.startswith("d(") and name[2:-1] in types:
            assert of <= types[name[2:-1]], name


def test_values_of_differentiated_loops_have_their_paths() -> None:
    def loss(params, xs):
        def step(carry, x):
            h = pl.numpy.tanh(params["w"] @ carry["h"] + x["row"])
            return {"h": h, "n": carry["n"] + 1}, [h * 2]

        carry, ys = pl.lax.scan(step, {"h": np.ones(3), "n": 0}, xs)
        return carry["h"].sum() + ys[0].sum()

    arguments = {"w": np.ones((3, 3))}, {"row": np.ones((5, 3))}
    jaxpr = pl.make_jaxpr(pl.grad(loss))(*arguments).jaxpr
    forward = next(e for e in jaxpr.equations if e.primitive.name == "scan")
    names = {v: name.name for v, name in value_names(jaxpr).items()}
    assert [names.get(v) for v in forward.results][:4] == [
        "carry['h']",
        "carry['n']",
        "ys[0]",
        None,
    ]
    body = forward.params.jaxpr.jaxpr
    inputs = [*argument_names(body).values()]
    assert inputs == ["", "carry['h']", "carry['n']", "x['row']"]
    names = {v: name.name for v, name in value_names(body).items()}
    assert [names.get(v) for v in body.outvars[:3]] == ["h", "result[0]['n']", "result[1][0]"]


def test_cotangents_of_a_call_that_differentiates_some_operands_have_their_names() -> None:
    """All are of one type: only the called program says which operands the cotangents are of."""

    @pl.jit
    def gate(a, b, c, d):
        u = a * b
        return pl.numpy.sin(u + c) * d

    def loss(params, x, y):
        def step(h, each):
            h = pl.numpy.tanh(h * each["w"] + each["u"] + each["x"])
            return h, None

        gated = gate(params["a"], x * 2.0, params["c"], y * 3.0)
        rows = {"w": params["w"], "u": params["u"], "x": params["x"]}
        return pl.lax.scan(step, gated, rows)[0].sum()

    params = {"a": np.ones(3), "c": np.ones(3)} | {name: np.ones((4, 3)) for name in "wux"}
    gradient = pl.grad(lambda params, x, y: loss(params | {"x": np.ones((4, 3))}, x, y))
    jaxpr = pl.make_jaxpr(gradient)(params, np.ones(3), np.ones(3)).jaxpr
    names = {v: name.name for v, name in value_names(jaxpr).items()}
    expected = [f"d(params['{name}'])" for name in ("a", "c", "u", "w")]
    assert [names.get(v) for v in jaxpr.outvars if isinstance(v, Var)][:4] == expected


def test_values_in_nested_backward_passes_have_names() -> None:
    @pl.jit
    def loop(ws, x):
        def body(h, w):
            hidden = pl.numpy.tanh(h @ w)
            return hidden, None

        return pl.lax.scan(body, x, ws)[0].sum()

    record = pl.analysis.program(pl.grad(loop), np.ones((4, 3, 3)), np.ones((2, 3)))
    names = [record.strings[name] for name in record.values.user_name]
    backward = record.bodies[-1]
    assert [names[v] for v in backward.inputs] == [
        "d(hidden)", "w", "h", "hidden", "(sub 1.0 hidden)"
    ]  # fmt: skip
    assert [names[v] for v in backward.outputs] == ["d(h)", "d(w)"]


def test_what_is_thrown_away_has_no_name() -> None:
    def samples(x):
        _, draws = pl.vmap(
            lambda x: pl.lax.scan(lambda c, w: (c * w, c), x, np.ones(3, np.float32))
        )(x)
        return draws.sum()

    record = pl.analysis.program(samples, np.ones(4, np.float32))
    assert "_" not in [record.strings[name] for name in record.values.user_name]


def test_results_without_a_name_have_their_path() -> None:
    def step(w, x):
        return {"new": w - 0.1, "all": [x * 2.0, w]}

    jaxpr = pl.make_jaxpr(step)(np.ones(3), np.ones(3)).jaxpr
    names = value_names(jaxpr)
    assert [names[v].name for v in jaxpr.outvars] == ["result['all'][0]", "w", "result['new']"]


def test_what_a_loop_keeps_for_its_derivative_has_its_name_in_the_backward_pass() -> None:
    def loss(ws, x):
        def body(h, w):
            hidden = pl.numpy.tanh(h @ w)
            return hidden * 2.0, None

        return pl.lax.scan(body, x, ws)[0].sum()

    record = pl.analysis.program(pl.grad(loss), np.ones((5, 4, 4)), np.ones((3, 4)))
    names = [record.strings[name] for name in record.values.user_name]
    [forward, backward] = [b for b in record.bodies if b.name == "body"]
    assert [names[v] for v in forward.outputs if v >= 0].count("hidden") >= 1
    inputs = [names[v] for v in backward.inputs]
    assert {"h", "hidden"} <= {*inputs}
    # The stacked residuals in between, too; a slice of an argument isn't the argument.
    assert names.count("hidden") >= 3
    assert "ws" not in inputs


def test_a_derivative_does_not_have_the_name_of_what_it_was_made_from() -> None:
    """The backward pass of a checkpoint computes the cosine of `h`, and not its sine."""

    def layer(c):
        h = c * 3.0
        g = pl.numpy.sin(h)
        return g + h

    [*_, backward] = pl.make_jaxpr(pl.grad(lambda x: pl.checkpoint(layer)(x) * 2.0))(1.0).equations
    body = backward.params.jaxpr.jaxpr
    names = {v: name.name for v, name in value_names(body).items()}
    [cosine] = [e for e in body.equations if e.primitive.name == "cos"]
    assert cosine.results[0] not in names
    assert {"c", "h"} <= {*names.values()}


# Programs that transformations made


@pytest.mark.parametrize(
    ("loss", "parameters"),
    [
        (perceptron, set()),
        (looped, {"h"}),
        (called, {"w", "x"}),
        (together, {"gate", "x", "shift", "carry['h']", "row"}),
    ],
)
@pytest.mark.parametrize("transformation", ["jvp", "linearize", "transpose", "vmap"])
def test_inputs_of_transformed_programs_have_the_names_of_their_values(
    loss, parameters, transformation
) -> None:
    shapes = {"w1": (4, 3), "b1": (3,), "w2": (3, 2)}
    params = {name: np.ones(shape) for name, shape in shapes.items()}
    arguments = (params, np.ones((5, 4)), np.ones((5, 2)))
    record = pl.analysis.ladder(loss, *arguments, transformations=(transformation,))
    before, after = record.programs
    names = [[p.strings[n] for n in p.values.user_name] for p in (before, after)]
    own = [names[0][v] for v in before.bodies[0].inputs]
    inputs = [names[1][v] for v in after.bodies[0].inputs]
    assert own == ["params['b1']", "params['w1']", "params['w2']", "x", "labels"]
    tangents = [f"δ({name})" for name in own]
    match transformation:
        case "jvp":
            assert inputs == own + tangents
        case "linearize":
            assert inputs[-5:] == tangents
            assert sum(bool(name) for name in inputs) > 0.6 * len(inputs)
        case "transpose":
            assert inputs[-1] == "d(result)"
            outputs = [names[1][v] for v in after.bodies[0].outputs]
            assert outputs == [f"d({name})" for name in own]
        case _:
            assert inputs == own
    # Bodies of loops and calls have the names of their parameters, too.
    inside = {names[1][v] for body in after.bodies[1:] for v in body.inputs}
    if transformation in ("jvp", "vmap"):
        assert parameters <= inside


@pytest.mark.parametrize("loss", [perceptron, shared, looped, called, together])
@pytest.mark.parametrize("transformation", ["jvp", "linearize"])
def test_a_tangent_is_that_of_the_value_that_it_is_named_of(loss, transformation) -> None:
    random = np.random.default_rng(3)
    shapes = {"w1": (4, 3), "b1": (3,), "w2": (3, 2)}
    params = {name: random.normal(size=shape) for name, shape in shapes.items()}
    arguments = (params, random.normal(size=(5, 4)), random.normal(size=(5, 2)))
    closed = pl.make_jaxpr(loss)(*arguments)
    jaxpr, operands = closed.jaxpr, pl.tree.leaves(arguments)
    moves = [random.normal(size=np.shape(x)) for x in operands]
    variables = {name.name: v for v, name in value_names(jaxpr).items()}
    changed = transform_program(jaxpr, transformation)
    base = frozenset(e.id for program in programs_within(jaxpr) for e in program.equations)
    reading = read_jaxpr(changed, origin=Made(transformation, base), forward=jaxpr)
    strings, user_names = reading.record.strings, reading.record.values.user_name
    computed = [v for e in changed.equations for v in e.results]
    names = {v: strings[user_names[reading.values[v]]] for v in computed}
    tangents = {v: name[2:-1] for v, name in names.items() if name.startswith("δ(")}
    if transformation == "jvp":
        inputs = [*operands, *moves]
    else:
        kept = linearize_jaxpr(jaxpr, (True,) * len(operands))
        results = pl.core.eval_jaxpr(kept.primal.jaxpr, (), *operands)
        inputs = [*kept.residuals(operands, results), *moves]
    values = pl.core.eval_jaxpr(changed.replace(outvars=[*tangents]), (), *inputs)
    assert len(tangents) >= {perceptron: 3, shared: 3, looped: 0, called: 1, together: 1}[loss]
    for value, name in zip(values, tangents.values(), strict=True):
        primal = jaxpr.replace(outvars=[variables[name]])
        run = lambda *xs, primal=primal: pl.core.eval_jaxpr(primal, (), *xs)[0]
        _, expected = pl.jvp(run, tuple(operands), tuple(moves))
        np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-6, err_msg=name)
