"""Which equations of a program are watched for a condition."""

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import lax
from pellucid._machine.checks.checkify import checked_program
from pellucid._machine.checks.watch import Watch
from pellucid_kernel.debug import exceeds, find, isinf, isnan

X = np.array([[0.5, -1.0, 2.0], [3.0, 4.0, 5.0]], np.float32)


def moving(x):
    y = jnp.log(x)
    return y.T.reshape(-1)[::-1] * 2, x[0], lax.pad(y, np.float32(np.inf), [(1, 0, 0), (0, 0, 0)])


def names_of_sites(condition):
    program = pl.make_jaxpr(moving)(X).jaxpr
    sites = checked_program(program, frozenset({Watch(condition)})).sites
    return [site.equation.primitive.name for site in sites if site.equation is not None]


def test_what_moves_watched_elements_is_not_watched_for_conditions_on_elements():
    """It is what moves inputs, and numbers of the program, and for other conditions all of it."""
    every = names_of_sites(lambda x: abs(x).max() > 10)
    assert {"log", "transpose", "rev", "mul", "pad"} <= {*every}
    for condition in (isnan, isinf, exceeds(10.0)):
        watched = names_of_sites(condition)
        assert [*watched[:1], *watched[-1:]] == ["log", "pad"]
        assert "mul" in watched
        assert not {"transpose", "rev"} & {*watched}
        assert len(watched) < len(every)


def in_loop(x):
    return lax.scan(lambda c, v: (jnp.sqrt(c[::-1]) * v.T, c.T), x[0], x)[1].T


def in_branch(x):
    return lax.cond(x[0, 0] > 0, lambda x: jnp.log(x.T)[::-1], lambda x: x.T, x) + 1


def of_input(x):
    return jnp.log(x)[::-1].T.T, (x - x) / (x - x)


@pytest.mark.parametrize("condition", [isnan, isinf, exceeds(4.5)], ids=["isnan", "isinf", "exceeds"])  # fmt: skip
@pytest.mark.parametrize("function", [moving, in_loop, in_branch, of_input, pl.vmap(in_branch)])
def test_the_first_operation_is_the_same_as_where_all_are_watched(function, condition):
    x = np.stack([X, X]) if function not in (moving, in_loop, in_branch, of_input) else X
    found = find(function, condition)(x)
    expected = find(function, lambda x: condition(x))(x)
    assert str(found) == str(expected)
