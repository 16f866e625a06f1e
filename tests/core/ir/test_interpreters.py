"""Interpreters that users write read `jaxpr.eqns` and call `primitive.bind(*values, **params)`."""

import numpy as np
import pytest
from rotation import rotating

import pellucid as pl
from pellucid import lax
from pellucid._machine.base.errors import ArgumentTypeError
from pellucid._machine.ir.primitive import registry
from pellucid.extend import core
from tests.corpus import jaxpr_text, primitive_facts, transform_programs

NOT_INTERPRETED = {
    "forward_through_custom_reverse": "raises",
    "rematerialized_layers": "uses NumPy's own functions",
}
PROGRAMS = {
    name: (lambda *args, f=f: f(pl, *args), args) for name, (f, args) in jaxpr_text.PROGRAMS.items()
} | {
    f.__name__: (lambda *args, f=f: f(pl, *args), args)
    for f, args in transform_programs.PROGRAMS
    if f.__name__ not in NOT_INTERPRETED
}
X = np.arange(3, dtype=np.float32)


def interpret(jaxpr, consts, *args):
    """The interpreter of the reference's tutorials."""
    values = {}

    def read(atom):
        return atom.val if isinstance(atom, core.Literal) else values[atom]

    values.update(zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *args), strict=True))
    for eqn in jaxpr.eqns:
        assert eqn.primitive.params_type is type(eqn.equation.params)
        params = eqn.primitive.get_bind_params(eqn.params)
        actual = eqn.primitive.bind(*map(read, eqn.invars), **params)
        if not eqn.primitive.multiple_results:
            actual = [actual]
        values.update(zip(eqn.outvars, actual, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


@pytest.mark.parametrize("name", rotating([(name,) for name in PROGRAMS], lambda _: ""))
def test_interpreted_programs_give_what_they_give(name):
    function, args = PROGRAMS[name]
    program = pl.make_jaxpr(function)(*args)
    actual = interpret(program.jaxpr, program.consts, *pl.tree.leaves(args))
    for ours, expected in zip(actual, pl.tree.leaves(pl.jit(function)(*args)), strict=True):
        if expected.dtype == pl.float0:
            assert ours.shape == expected.shape
        else:
            np.testing.assert_allclose(ours, expected, rtol=2e-5, atol=1e-6)


def test_which_primitives_give_lists(oracle):
    theirs = oracle.call(primitive_facts.multiple_results)
    ours = {name: p.multiple_results for name, p in registry.items() if name in theirs}
    assert len(ours) > 100
    # Ours moves one value.
    assert {name for name in ours if ours[name] != theirs[name]} == {"device_put"}


def test_names_of_public_primitives(oracle):
    ours, theirs = primitive_facts.names(pl), oracle.call(primitive_facts.names)
    assert theirs.keys() - ours.keys() == {"empty2_p", "select_and_scatter_p"}
    assert {v: ours[v] for v in ours.keys() & theirs.keys() if ours[v] != theirs[v]} == {}


def test_a_program_with_other_equations():
    program = pl.make_jaxpr(lambda x: lax.sin(x))(X)
    [eqn] = program.eqns
    changed = eqn.replace(primitive=lax.cos_p)
    assert changed.invars == eqn.invars
    assert changed.source_info == eqn.source_info
    jaxpr = program.jaxpr.replace(eqns=[changed])
    [actual] = core.jaxpr_as_fun(program.replace(jaxpr=jaxpr))(X)
    np.testing.assert_allclose(actual, np.cos(X), rtol=1e-6)


def test_params_are_a_dict_of_the_names_in_the_text():
    [eqn] = pl.make_jaxpr(lambda x: lax.reduce_sum(x, (0,)))(X).eqns
    assert eqn.params["axes"] == (0,)
    eqn.params["axes"] = ()
    assert pl.make_jaxpr(lambda x: lax.reduce_sum(x, (0,)))(X).eqns[0].params["axes"] == (0,)


def test_wrong_params_are_named():
    with pytest.raises(ArgumentTypeError, match=r"(?s)`reduce_sum\.bind`.*axis.*axes"):
        lax.reduce_sum_p.bind(X, axis=0)


def test_functions_are_bound_as_accurate_as_usual_where_nothing_else_is_asked_for():
    np.testing.assert_array_equal(lax.sqrt_p.bind(X), lax.sqrt(X))
