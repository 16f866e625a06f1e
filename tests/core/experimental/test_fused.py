"""Functions whose results go to several memories."""

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid._machine.base.errors import ArgumentValueError
from pellucid.experimental.fused import fused
from pellucid.memory import Space

X = np.arange(3, dtype=np.float32)


@fused(out_spaces=(Space.Host, Space.Device))
def split(x):
    return {"host": jnp.sin(x), "kept": 2 * x}


def test_results_go_to_their_memories() -> None:
    shapes = pl.make_jaxpr(split)(X).out_avals
    assert [aval.text() for aval in shapes] == ["f32<host>[3]", "f32[3]"]
    result = split(X)
    np.testing.assert_allclose(result["host"], np.sin(X), rtol=1e-6)
    np.testing.assert_allclose(result["kept"], 2 * X)


def test_arguments_come_from_any_memory() -> None:
    program = pl.make_jaxpr(lambda x: split(split(x)["host"])["kept"])(X)
    assert program.out_avals[0].text() == "f32[3]"
    np.testing.assert_allclose(
        pl.jit(lambda x: split(split(x)["host"])["kept"])(X), 2 * np.sin(X), rtol=1e-6
    )


def test_transformations() -> None:
    np.testing.assert_allclose(pl.grad(lambda x: split(x)["host"].sum())(X), np.cos(X), rtol=1e-6)
    np.testing.assert_allclose(pl.vmap(split)(np.stack([X, X]))["kept"], [2 * X, 2 * X])


def test_memories_fit_the_results() -> None:
    with pytest.raises(
        ArgumentValueError, match=r"one memory for each.*\n.*1 memories for 2 arrays"
    ):
        fused(out_spaces=(Space.Host,))(lambda x: (x, x))(X)
    with pytest.raises(ArgumentValueError, match=r"memory.Space`s.*\n.*host"):
        fused(out_spaces=("host",))
