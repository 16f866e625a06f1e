"""Lanes of batches: another element of a batch changes the values of its own lane alone."""

from __future__ import annotations

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import lax
from pellucid._machine.ir.jaxpr import DropVar
from pellucid.introspect.lanes import batch_sizes, batches_of, lanes_at
from pellucid.introspect.stepping import frame_of, is_loop

W = jnp.linspace(-1.0, 1.0, 9).reshape(3, 3)


def recurrent(x):
    def body(c, w):
        c = jnp.tanh(c @ W * w)
        return c, c.sum()

    out, sums = lax.scan(body, jnp.sin(x), jnp.arange(4.0))
    return out.mean() + sums.sum()


def outer_product(x):
    return pl.vmap(lambda a: jnp.cumsum(a * x), 0, 1)(x[:2]).sum(1)


total = lambda f: lambda xs: f(xs).sum()
FUNCTIONS = {
    "batch": (pl.vmap(recurrent), 1),
    "gradients of a batch": (pl.vmap(pl.grad(recurrent)), 1),
    "gradient of a batch": (pl.grad(total(pl.vmap(recurrent))), 1),
    "call": (pl.vmap(pl.jit(recurrent)), 1),
    "last axis": (pl.vmap(recurrent, 1), 1),
    "nested": (pl.vmap(outer_product), 2),
    "gradient of nested": (pl.grad(total(pl.vmap(outer_product))), 2),
}


def frames(frame):
    """A frame, and of each loop and call in it the second run, or the only one."""
    yield frame
    for position, equation in enumerate(frame.jaxpr.equations):
        frame.move(position)
        call = frame.call()
        if call is not None:
            turn = call.jump(1 if is_loop(equation) else 0)
            yield from frames(call.frame(turn))


def values_of(program, x):
    """(batches, value) of each result, of a program and those within it."""
    rows = []
    for frame in frames(frame_of(program, x)):
        jaxpr = frame.jaxpr
        frame.move(len(jaxpr.equations))
        rows += [
            (batches_of(jaxpr, e, v), frame.value(v), batch_sizes(jaxpr, e))
            for e in jaxpr.equations
            for v in e.results
            if type(v) is not DropVar and v.aval.shape
        ]
    return rows


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_of_other_lanes_stay(name) -> None:
    function, depth = FUNCTIONS[name]
    x = jnp.linspace(0.1, 2.0, 9).reshape(3, 3)
    axis = 1 if name == "last axis" else 0
    other = np.array(x)
    np.moveaxis(other, axis, 0)[1] += 0.25
    program = pl.make_jaxpr(function)(x)
    rows = values_of(program, x)
    n_depths = dict.fromkeys(range(depth + 1), 0)
    for (batches, value, sizes), (_, changed, _) in zip(
        rows, values_of(program, other), strict=True
    ):
        assert all(sizes[depth] == size for size, _, depth in batches)
        n_depths[len(batches)] += 1
        if not batches:
            continue
        size, dim, _ = batches[0]
        assert np.shape(value)[dim] == size == 3
        same, new = np.moveaxis(np.array(value), dim, 0), np.moveaxis(np.array(changed), dim, 0)
        np.testing.assert_array_equal(np.delete(same, 1, 0), np.delete(new, 1, 0))
    assert n_depths[depth] > n_depths[0] // 2


def test_cotangents_of_what_no_lane_has_are_in_none() -> None:
    # Both factors of the product have the sizes 3 and 3: which of them a cotangent belongs to, shapes don't say.
    function = pl.grad(lambda w, xs: pl.vmap(lambda x: jnp.tanh(w @ x))(xs).sum())
    jaxpr = pl.make_jaxpr(function)(W, W).jaxpr
    [*_, last] = [e for e in jaxpr.equations if jaxpr.outvars[0] in e.results]
    assert batch_sizes(jaxpr, last) == [3]
    assert batches_of(jaxpr, last, jaxpr.outvars[0]) == []


def test_lanes_are_in_words() -> None:
    jaxpr = pl.make_jaxpr(pl.vmap(lambda x: x * 2, 1, 1))(jnp.ones((2, 32))).jaxpr
    [equation] = jaxpr.equations
    [lane] = lanes_at(jaxpr, equation, equation.results[0], (0, 3))
    assert str(lane) == "lane 3 of 32"
    assert lanes_at(jaxpr, equation, equation.results[0], ()) == ()


def test_equal_batches_keep_layers_alike() -> None:
    def layers(x):
        for _ in range(4):
            with pl.named_scope("layer"):
                x = pl.vmap(lambda row: jnp.tanh(row) * 2 + row)(x)
        return x

    scopes = {e.scope for e in pl.make_jaxpr(layers)(W).jaxpr.equations}
    assert len(scopes) == 1
