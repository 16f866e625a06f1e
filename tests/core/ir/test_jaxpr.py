"""Programs as values: what users read of their equations."""

import functools
import re

import numpy as np
import pytest

import pellucid as pl
from pellucid import core, lax


def test_programs_are_read_from_the_params_that_users_see():
    def f(x):
        return lax.cond(x > 0, lambda y: y + 1, lambda y: y * 2, pl.jit(lambda y: -y)(x))

    equations = pl.make_jaxpr(f)(1.0).eqns
    programs = {e.primitive.name: core.jaxprs_in_params(e.params) for e in equations}
    operations = {
        name: [jaxpr.eqns[0].primitive.name for jaxpr in jaxprs]
        for name, jaxprs in programs.items()
    }
    assert operations["jit"] == ["neg"]
    assert operations["cond"] == ["mul", "add"]
    assert operations["gt"] == []


def test_equations_that_programs_share_are_equal():
    jaxpr = pl.make_jaxpr(lambda x: -(x * 2.0))(1.0).jaxpr
    other = jaxpr.replace(outvars=jaxpr.eqns[0].outvars)
    assert other.eqns == jaxpr.eqns
    assert jaxpr.eqns[0] != jaxpr.eqns[1]
    assert len({*jaxpr.eqns, *other.eqns}) == 2
    assert jaxpr.eqns[0].replace(params={}) != jaxpr.eqns[0]


def loss(params, x):
    def step(carry, w):
        return carry * w, carry

    return {"loss": lax.scan(step, x, params["w"])[0]}


def test_programs_say_who_asked_for_their_trace_and_where_their_function_is():
    jaxpr = pl.make_jaxpr(pl.jit(loss))({"w": np.ones(2)}, 1.0).jaxpr
    whole = jaxpr.debug_info
    assert whole.traced_for == "jit"
    assert whole.func_src_info == f"loss at {__file__}:{loss.__code__.co_firstlineno}"
    assert whole.arg_names == ("params['w']", "x")
    assert whole.result_paths == ("result['loss']",)
    [call] = jaxpr.eqns
    [scan] = [e for e in call.params["jaxpr"].jaxpr.eqns if e.primitive is lax.scan_p]
    body = scan.params["jaxpr"].jaxpr.debug_info
    assert (body.traced_for, body.func_name, body.arg_names) == ("scan", "step", ("carry", "w"))
    assert body.func_src_info.startswith(f"step at {__file__}:")


def scaled(x):
    return 2 * x


def with_wrapper(f):
    @functools.wraps(f)
    def wrapper(*args):
        return f(*args)

    return wrapper


@pytest.mark.parametrize(
    "wrap",
    [
        functools.partial,
        with_wrapper,
        lambda f: functools.partial(pl.grad(functools.partial(f))),
        pl.vmap,
        pl.grad,
        pl.checkpoint,
    ],
    ids=["partial", "wraps", "both", "vmap", "grad", "checkpoint"],
)
def test_wrapped_functions_begin_where_they_are_defined(wrap):
    info = pl.make_jaxpr(wrap(scaled))(np.ones(2) if wrap is pl.vmap else 1.0).jaxpr.debug_info
    assert info.func_src_info == f"scaled at {__file__}:{scaled.__code__.co_firstlineno}"


def test_functions_of_the_library_begin_where_they_are_defined():
    info = pl.make_jaxpr(pl.nn.relu)(1.0).jaxpr.debug_info
    assert re.fullmatch(r"relu at .*activations\.py:\d+", info.func_src_info)


def test_a_program_takes_the_four_fields_of_another():
    jaxpr = pl.make_jaxpr(lambda x, y: (x, x + y))(1.0, 2.0).jaxpr
    info = jaxpr.debug_info
    only_sum = core.DebugInfo(info.traced_for, info.func_src_info, info.arg_names, ("sum",))
    part = jaxpr.replace(outvars=jaxpr.outvars[1:], debug_info=only_sum).debug_info
    assert (part.traced_for, part.func_src_info) == ("jit", info.func_src_info)
    assert (part.arg_names, part.result_paths) == (("x", "y"), ("sum",))


def test_unknown_names_are_none():
    info = core.DebugInfo("scan", "body", None, None)
    assert (info.func_name, info.arg_names, info.result_paths) == ("body", None, None)


def with_rule(f):
    function = pl.custom_jvp(f)
    function.defjvps(lambda t, result, x: t)
    return function


@pytest.mark.parametrize(
    ("traced_for", "program"),
    [
        ("cond", lambda x, f: lax.cond(x > 0, f, f, x)),
        ("while_loop", lambda x, f: lax.while_loop(lambda y: y < 3, f, x)),
        ("checkpoint", lambda x, f: pl.remat(f)(x)),
        ("custom_jvp fun", lambda x, f: with_rule(f)(x)),
        ("jit", lambda x, f: pl.jit(f)(x)),
    ],
)
def test_each_caller_names_itself(traced_for, program):
    def inner(y):
        return y + 1

    jaxpr = pl.make_jaxpr(lambda x: program(x, inner))(1.0).jaxpr
    infos = [
        part.debug_info
        for equation in jaxpr.eqns
        for param in equation.params.values()
        for part in (param if isinstance(param, tuple) else (param,))
        if hasattr(part, "debug_info")
    ]
    assert traced_for in {info.traced_for for info in infos if info.func_name == "inner"}
