"""Batches that Explicit axes cut, other meshes within a program, and carries that differ in sharding alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from corpus.explicit_batches import PROGRAMS
from message_checks import check_message

import pellucid as pl
from pellucid import lax
from pellucid._machine.base.errors import ArgumentTypeError
from pellucid.sharding import NamedSharding, PartitionSpec as P, reshard


@pytest.mark.parametrize("program", PROGRAMS)
def test_agrees_with_the_reference(oracle_8_devices: Any, program: Any) -> None:
    oracle_8_devices.check(program, library=pl)


def test_derivatives_through_another_mesh() -> None:
    other = pl.make_mesh((2, 4), ("a", "b")).abstract_mesh

    def loss(x: Any) -> Any:
        with pl.sharding.use_abstract_mesh(other):
            return pl.numpy.sin(reshard(x, P("a", "b"))).sum()

    mesh = pl.make_mesh((4, 2), ("x", "y"))
    with pl.set_mesh(mesh):
        x = np.linspace(0, 1, 64, dtype=np.float32).reshape(8, 8)
        gradient = pl.jit(pl.grad(loss))(pl.device_put(x, NamedSharding(mesh, P("x", "y"))))
    np.testing.assert_allclose(gradient, np.cos(x), 1e-6)
    assert pl.typeof(gradient).sharding.spec == P("x", "y")


@pytest.mark.parametrize(
    ("caller", "program"),
    [
        ("scan", lambda x, f: lax.scan(lambda c, _: (f(c), None), x, None, length=2)),
        ("while_loop", lambda x, f: lax.while_loop(lambda c: c.sum() < 0, f, x)),
        ("fori_loop", lambda x, f: lax.fori_loop(0, 2, lambda i, c: f(c), x)),
        ("cond", lambda x, f: lax.cond(x.sum() > 0, lambda c: c, f, x)),
        ("switch", lambda x, f: lax.switch(1, [lambda c: c, f], x)),
    ],
)
def test_results_that_differ_in_sharding_alone_are_described_so(
    caller: str, program: Callable[..., Any]
) -> None:
    mesh = pl.make_mesh((4, 2), ("x", "y"))
    with pl.set_mesh(mesh):
        x = pl.device_put(np.zeros((8, 8), np.float32), NamedSharding(mesh, P("x")))
        for call in (program, pl.jit(program, static_argnums=1)):
            check_message(
                lambda call=call: call(x, lambda c: reshard(c, P(None, "y"))),
                ArgumentTypeError,
                caller,
                "sharding only",
                "reshard",
            )
