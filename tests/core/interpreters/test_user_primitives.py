"""Primitives of a user: registered rules, as in the reference, and what is said where one is missing or wrong."""

import functools
import pickle

import numpy as np
import pytest
from corpus import user_primitives
from message_checks import check_message

import pellucid as pl
from pellucid import lax
from pellucid._machine.base.errors import (
    ArgumentTypeError,
    ArgumentValueError,
    MissingRule,
    UnsupportedError,
)
from pellucid._machine.sharding.errors import IndivisibleError
from pellucid.extend.core import Primitive
from pellucid.interpreters import ad, batching, mlir, partial_eval, xla
from pellucid.introspect.program import read_jaxpr

X = np.array([1, 2, 5], np.float32)


@pytest.mark.parametrize("program", user_primitives.PROGRAMS)
def test_programs_do_what_the_reference_does(oracle, program) -> None:
    oracle.check(program, library=pl)


def test_results_over_explicit_axes_have_the_layouts_that_types_state(oracle_8_devices) -> None:
    oracle_8_devices.check(user_primitives.over_explicit_axes, library=pl)
    with pytest.raises(IndivisibleError, match=r"abstract_eval rule of `new`: \[3@a,2\]"):
        over_explicit_axes(lambda x: x.update(shape=(3, 2)))


def new(name="new"):
    primitive = Primitive(name)
    primitive.def_impl(functools.partial(xla.apply_primitive, primitive))
    primitive.def_abstract_eval(lambda x, **params: x)
    return primitive


def linear_in_jvp(primitive):
    ad.defjvp(primitive, lambda t, x: primitive.bind(t))
    mlir.register_lowering(primitive, lambda ctx, x: [x])
    return primitive


MISSING = {
    "implementation": lambda p: Primitive("new").bind(X),
    "abstract_eval": lambda p: pl.jit(Primitive("new").bind)(X),
    "jvp": lambda p: pl.jvp(p.bind, (X,), (X,)),
    "transpose": lambda p: pl.grad(lambda x: linear_in_jvp(p).bind(x).sum())(X),
    "batch": lambda p: pl.vmap(p.bind)(X),
    "lower": lambda p: pl.jit(p.bind)(X),
}


@pytest.mark.parametrize("rule", MISSING)
def test_a_missing_rule_says_how_to_add_it(rule) -> None:
    with pytest.raises(MissingRule, match=f"`new` has no {rule}") as caught:
        MISSING[rule](new())
    assert "new_p" in str(caught.value.do)
    assert isinstance(caught.value, NotImplementedError)


def registered(table, rule):
    primitive = new()
    table[primitive] = rule
    return primitive


def typed(rule):
    primitive = Primitive("new")
    primitive.def_abstract_eval(rule)
    return primitive


def lowered(rule, **more):
    primitive = new()
    mlir.register_lowering(primitive, rule, **more)
    return primitive


BAD = {
    "name": (lambda: Primitive(3), "its name"),
    "impl": (lambda: Primitive("new").def_impl(3), "needs a function"),
    "table key": (lambda: ad.primitive_jvps.__setitem__("sin", len), "for primitives"),
    "table value": (lambda: ad.primitive_jvps.__setitem__(lax.sin_p, 3), "must be a function"),
    "types": (lambda: pl.jit(typed(lambda x: x.shape).bind)(X), "must return one value"),
    "no type": (lambda: pl.jit(typed(lambda x: 3).bind)(X), "must return types"),
    "no tangents": (
        lambda: pl.jvp(registered(ad.primitive_jvps, lambda p, t: p).bind, (X,), (X,)),
        "must return 2 values",
    ),
    "cotangents": (
        lambda: pl.linear_transpose(registered(ad.primitive_transposes, lambda ct, x: ct).bind, X)(
            X
        ),
        "must return 1 values",
    ),
    "dim": (
        lambda: pl.vmap(registered(batching.primitive_batchers, lambda x, d: (x[0], 1)).bind)(X),
        "no batch axis",
    ),
    "values": (lambda: pl.jit(lowered(lambda ctx, x: []).bind)(X), "of its results' types"),
    "listed": (
        lambda: pl.jit(lowered(mlir.lower_fun(lambda x: x)).bind)(X),
        "multiple_results=True",
    ),
    "rank": (lambda: over_explicit_axes(lambda x: x.update(shape=(3,))), "of its result's rank"),
    "defjvp": (
        lambda: pl.grad(lambda x: registered_defjvp().bind(x).sum())(X),
        "must return 1 values",
    ),
}


def over_explicit_axes(rule):
    with pl.set_mesh(pl.make_mesh((4,), ("a",), devices=pl.devices()[:4])):
        return pl.jit(typed(rule).bind)(pl.device_put(np.ones((4, 2)), pl.P("a")))


def registered_defjvp():
    primitive = new()
    ad.defjvp(primitive, lambda t, x: t, lambda t, x: t)
    return primitive


@pytest.mark.parametrize("case", BAD)
def test_bad_rules_are_refused(case) -> None:
    call, text = BAD[case]
    check_message(call, ArgumentTypeError, text)


def test_rules_for_unknown_platforms_are_refused() -> None:
    with pytest.raises(NotImplementedError, match="unknown platform"):
        lowered(len, platform="abacus")


def test_a_rule_that_is_replaced_is_forgotten() -> None:
    primitive = new()
    mlir.register_lowering(primitive, lambda ctx, x: [x])
    f = pl.jit(lambda x: primitive.bind(x))
    both = [f(X)]
    mlir.register_lowering(
        primitive, mlir.lower_fun(lambda x: 2 * x, multiple_results=False), platform="cpu"
    )
    both.append(f(X))
    np.testing.assert_array_equal(both, [X, 2 * X])
    closed = pl.make_jaxpr(pl.jit(lambda x: lax.cosh(x)))(X[0])
    gradient = pl.grad(lambda x: pl.extend.core.jaxpr_as_fun(closed)(x)[0])
    before = gradient(X[0])
    ad.primitive_jvps[lax.cosh_p] = lambda primals, tangents, **params: (primals[0], tangents[0])
    try:
        assert gradient(X[0]) == 1
    finally:
        del ad.primitive_jvps[lax.cosh_p]
    assert gradient(X[0]) == before


def test_rules_of_built_in_primitives_can_be_read() -> None:
    both = batching.primitive_batchers[lax.mul_p]((np.ones((2, 3)), np.ones((3, 2))), (0, 1))
    assert both[0].shape == (2, 3)
    assert both[1] == 0
    assert lax.mul_p in ad.primitive_transposes
    assert lax.argmax_p not in ad.primitive_transposes
    assert {lax.sin_p, lax.mul_p} <= {*ad.primitive_jvps}
    with pytest.raises(KeyError):
        ad.primitive_transposes[lax.argmax_p]


def test_names_of_users_leave_built_in_primitives_alone() -> None:
    mine = Primitive("sin")
    assert pickle.loads(pickle.dumps(lax.sin_p)) is lax.sin_p
    assert pickle.loads(pickle.dumps(mine)) is mine
    with pytest.raises(ArgumentTypeError, match="can't be pickled"):
        pickle.dumps(Primitive("sin"))
    assert isinstance(lax.sin_p, Primitive)
    assert mine in {mine: 0}
    assert mine != lax.sin_p


def test_params_with_other_names_or_without_a_hash() -> None:
    seen = []
    primitive = Primitive("new")
    primitive.def_abstract_eval(lambda x, **params: seen.append(params) or x)
    mlir.register_lowering(primitive, lambda ctx, x, **params: [x])
    for params in ({"a": 1}, {"b": 1}, {"c": [1, 2]}):
        text = str(pl.make_jaxpr(lambda x, params=params: primitive.bind(x, **params))(X))
        [(name, value)] = params.items()
        assert f"new[{name}={value}]" in text
        pl.jit(lambda x, params=params: primitive.bind(x, **params))(X)
    assert seen[0] == {"a": 1}
    assert {"b": 1} in seen
    assert {"c": [1, 2]} in seen


def test_records_have_a_users_primitive() -> None:
    primitive = new("mirror")
    record = read_jaxpr(pl.make_jaxpr(lambda x: primitive.bind(x, by=3))(X).jaxpr).record
    assert record.kinds["mirror"] == "custom"


def test_containers_are_refused_with_what_is_wrong_of_them() -> None:
    Columns, Along = user_primitives.Columns, user_primitives.Along
    register = functools.partial(batching.register_vmappable, Columns, Along, int)
    check_message(lambda: register(3, abs, None), ArgumentTypeError, "needs functions", "got 3")
    check_message(
        lambda: batching.register_vmappable(Columns, 1, int, abs, abs, None),
        ArgumentTypeError,
        "spec_type must be a class",
    )
    with pytest.raises(ArgumentTypeError, match="must be ints or None"):
        pl.vmap(lambda c: c, in_axes=(Columns(X, X),))
    register(
        lambda element_of, index, columns, along: element_of(columns.table, along.axis),
        lambda stacked, size, columns, along: stacked(size, columns.table, along.axis), None,
    )  # fmt: skip
    try:
        check_message(
            lambda: pl.vmap(lambda c: c, Along(2), axis_size=3)(Columns(X, X)),
            ArgumentValueError, "asked for an element along what is no axis", "axis 2 of f32[3]",
        )  # fmt: skip
        check_message(
            lambda: pl.vmap(lambda c: c, Along(0))(Columns(X, X)),
            ArgumentValueError,
            "how long the batch is",
        )
        check_message(
            lambda: pl.vmap(lambda x: Columns(x, x), 0, Along(None))(X),
            ArgumentValueError,
            "out_axes says None",
        )
        check_message(
            lambda: pl.vmap(lambda x: (Columns(x, x), "a"), 0, Along(0))(X),
            ArgumentTypeError,
            "not an array",
        )
    finally:
        batching.unregister_vmappable(Columns)
    check_message(
        lambda: pl.vmap(lambda c: c, in_axes=0)(Columns(X, X)), ArgumentTypeError, "Columns"
    )


def test_what_a_lowering_raises_is_not_reworded() -> None:
    primitive = new("raising")

    def lower(ctx, x):
        raise NotImplementedError("no such device")

    mlir.register_lowering(primitive, lower)
    with pytest.raises(NotImplementedError, match="no such device"):
        pl.jit(primitive.bind)(1.0)


def keep(saveable, unknown, instantiated, eqn):
    return eqn, None, [False], [False], eqn.outvars


def recompute(saveable, unknown, instantiated, eqn):
    return eqn, eqn, [False], [True], []


def ask(saveable, unknown, instantiated, eqn):
    is_kept = saveable(eqn.primitive, *[v.aval for v in eqn.invars], **eqn.params)
    rule = keep if is_kept else recompute
    return rule(saveable, unknown, instantiated, eqn)


@pytest.mark.parametrize(
    ("rule", "policy", "runs"),
    [
        (keep, None, 1),
        (recompute, None, 2),
        (ask, None, 2),
        (ask, pl.checkpoint_policies.everything_saveable, 1),
        (None, None, 2),
    ],
)
def test_rules_of_partial_evaluation_choose_what_checkpoint_keeps(rule, policy, runs) -> None:
    primitive = new("kept_or_not")
    mlir.register_lowering(primitive, lambda ctx, x: [x])
    ad.defjvp(primitive, lambda t, x: t * lax.cos(x))
    if rule is not None:
        partial_eval.partial_eval_jaxpr_custom_rules[primitive] = rule
        assert partial_eval.partial_eval_jaxpr_custom_rules[primitive] is rule
    f = pl.checkpoint(lambda x: lax.sin(primitive.bind(x)), policy=policy)
    gradient = pl.grad(f)
    assert str(pl.make_jaxpr(gradient)(1.0)).count("= kept_or_not") == runs
    np.testing.assert_allclose(gradient(1.0), np.cos(1.0) ** 2, rtol=1e-6)


def test_what_no_transformation_asks_for_is_refused() -> None:
    primitive = new()
    with pytest.raises(UnsupportedError, match="`new` can't have a rule of partial evaluation"):
        partial_eval.custom_partial_eval_rules[primitive] = lambda trace, x: x
    assert primitive not in partial_eval.custom_partial_eval_rules
    ad.defjvp(primitive, lambda t, x: t * x)
    for answer in (
        lambda eqn: (eqn, None, [True], [False], []),
        lambda eqn: (eqn.replace(), None, [False], [False], []),
        lambda eqn: (eqn, None, [False], [True], []),
        lambda eqn: (eqn, eqn, [False], [True], [object()]),
    ):
        rule = lambda saveable, unknown, instantiated, eqn, answer=answer: answer(eqn)
        partial_eval.partial_eval_jaxpr_custom_rules[primitive] = rule
        with pytest.raises(UnsupportedError, match="can only choose whether `checkpoint` keeps"):
            pl.make_jaxpr(pl.grad(pl.checkpoint(primitive.bind)))(1.0)


def test_lowerings_in_python_use_references():
    def summed(x):
        total = pl.new_ref(x)

        def add(i, c):
            total[...] += i
            return c

        pl.lax.fori_loop(0, 3, add, 0)
        return pl.freeze(total)

    primitive = Primitive("summed")
    primitive.def_abstract_eval(lambda x: x)
    mlir.register_lowering(primitive, mlir.lower_fun(summed, multiple_results=False))
    np.testing.assert_array_equal(pl.jit(primitive.bind)(np.ones(2, np.float32)), [4, 4])
