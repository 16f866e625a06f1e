"""One mistake in a placement has the same message in all functions that take the placement."""

import functools
import re

import numpy as np
import pytest

import pellucid as pl
from pellucid import lax, numpy as jnp
from pellucid._machine.base.errors import PellucidError
from pellucid._machine.sharding.errors import (
    DuplicateAxisError,
    IndivisibleError,
    MissingMeshError,
    PartitionSpecError,
)
from pellucid.experimental import multihost_utils
from pellucid.sharding import AxisType, NamedSharding, PartitionSpec as P, auto_axes, explicit_axes

EVEN, UNEVEN = np.ones((8, 4), np.float32), np.ones((6, 4), np.float32)
INTERNAL = re.compile(
    r"mlir|stablehlo|sdy\.|INVALID_ARGUMENT|assert|jaxpr|\baval\b|tracer", re.IGNORECASE
)


@functools.cache
def auto():
    return pl.make_mesh((4, 2), ("x", "y"), (AxisType.Auto,) * 2)


@functools.cache
def explicit():
    return pl.make_mesh((4, 2), ("x", "y"))


def over(spec):
    return NamedSharding(auto(), spec)


SHARDINGS = {
    "NamedSharding": lambda spec, x: over(spec).shard_shape(x.shape),
    "index map": lambda spec, x: over(spec).devices_indices_map(x.shape),
    "in_shardings": lambda spec, x: pl.jit(jnp.sin, in_shardings=over(spec))(x),
    "out_shardings": lambda spec, x: pl.jit(jnp.sin, out_shardings=over(spec))(x),
    "device_put": lambda spec, x: pl.device_put({"w": x}, {"w": over(spec)}),
    "zeros": lambda spec, x: jnp.zeros(x.shape, device=over(spec)),
    "array": lambda spec, x: jnp.array(x, device=over(spec)),
    "make_array_from_callback": lambda spec, x: pl.make_array_from_callback(
        x.shape, over(spec), lambda index: x[index]
    ),
    "make_array_from_single_device_arrays": lambda spec, x: pl.make_array_from_single_device_arrays(
        x.shape, over(spec), [pl.device_put(x)]
    ),
    "make_array_from_process_local_data": lambda spec, x: pl.make_array_from_process_local_data(
        over(spec), x
    ),
    "lower": lambda spec, x: pl.jit(jnp.sin).lower(
        pl.ShapeDtypeStruct(x.shape, x.dtype, sharding=over(spec))
    ),
    "shard_map": lambda spec, x: pl.shard_map(jnp.sin, mesh=auto(), in_specs=spec, out_specs=P())(
        x
    ),
    "host_local_array": lambda spec, x: multihost_utils.host_local_array_to_global_array(
        x, auto(), spec
    ),
}
"""Ways to place an array by a spec over a mesh that is given; each refuses uneven parts."""

CONSTRAINTS = {
    "with_sharding_constraint": lambda spec, x: lax.with_sharding_constraint(x, over(spec)),
    "constraint in jit": lambda spec, x: pl.jit(
        lambda x: lax.with_sharding_constraint(x, over(spec))
    )(x),
    "device_put in jit": lambda spec, x: pl.jit(lambda x: pl.device_put(x, over(spec)))(x),
}
"""Functions that may cut an array unevenly: within a program."""

BARE_AUTO = {
    "in_shardings": lambda spec, x: pl.jit(jnp.sin, in_shardings=spec)(x),
    "out_shardings": lambda spec, x: pl.jit(jnp.sin, out_shardings=spec)(x),
    "device_put": lambda spec, x: pl.device_put(x, spec),
    "zeros": lambda spec, x: jnp.zeros(x.shape, device=spec),
    "make_array_from_callback": lambda spec, x: pl.make_array_from_callback(
        x.shape, spec, lambda index: x[index]
    ),
    "explicit_axes": lambda spec, x: explicit_axes(jnp.sin, in_sharding=spec)(x),
}
"""Ways that take a bare spec over the current mesh, whose axes are Auto."""

BARE_EXPLICIT = {
    "reshard": lambda spec, x: pl.reshard(x, spec),
    "reshard in jit": lambda spec, x: pl.jit(lambda x: pl.reshard(x, spec))(x),
    "auto_axes": lambda spec, x: auto_axes(jnp.sin, out_sharding=spec)(x),
    "ones": lambda spec, x: pl.jit(lambda: jnp.ones(x.shape, out_sharding=spec))(),
    "arange": lambda spec, x: jnp.arange(x.shape[0], out_sharding=spec),
    "einsum": lambda spec, x: jnp.einsum("ij,jk->ik", x, EVEN[:4], out_sharding=spec),
    "dot_general": lambda spec, x: lax.dot_general(
        x, EVEN[:4], (([1], [0]), ([], [])), out_sharding=spec
    ),
    "reshape": lambda spec, x: jnp.reshape(x.ravel(), x.shape, out_sharding=spec),
    "broadcasted_iota": lambda spec, x: lax.broadcasted_iota(
        "float32", x.shape, 0, out_sharding=spec
    ),
    "take": lambda spec, x: jnp.asarray(x).at[np.arange(len(x))].get(out_sharding=spec),
}
"""The same where its axes are Explicit."""

MISTAKES = {
    "no such axis": (P("z"), EVEN, PartitionSpecError, "axis 'z'"),
    "an axis twice": (P("x", "x"), EVEN, DuplicateAxisError, "'x' more than once"),
    "too many entries": (P("x", None, "y"), EVEN, PartitionSpecError, "rank"),
    "uneven parts": (P("x"), UNEVEN, IndivisibleError, "split evenly into 4 parts over 'x'"),
}


def told(call, error):
    """The text of the error that `call` raises, in the form that all have."""
    with pytest.raises(error) as caught:
        call()
    assert isinstance(caught.value, PellucidError)
    text = str(caught.value)
    first, *more = text.split("\n")
    assert len(first) <= 100
    assert 2 <= len(more) <= 5
    assert not INTERNAL.search(text)
    return text


@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.parametrize("way", SHARDINGS | CONSTRAINTS)
def test_placements_over_a_mesh(way, mistake):
    spec, x, error, words = MISTAKES[mistake]
    if way in CONSTRAINTS and error is IndivisibleError:
        np.testing.assert_array_equal(CONSTRAINTS[way](spec, x), x)
    else:
        assert words in told(lambda: (SHARDINGS | CONSTRAINTS)[way](spec, x), error)


@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.parametrize("way", BARE_AUTO)
def test_specs_over_the_current_mesh(way, mistake):
    spec, x, error, words = MISTAKES[mistake]
    with pl.set_mesh(auto()):
        assert words in told(lambda: BARE_AUTO[way](spec, x), error)


@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.parametrize("way", BARE_EXPLICIT)
def test_specs_over_explicit_axes(way, mistake):
    spec, x, error, words = MISTAKES[mistake]
    with pl.set_mesh(explicit()):
        assert words in told(lambda: BARE_EXPLICIT[way](spec, x), error)


@pytest.mark.parametrize("way", BARE_AUTO | BARE_EXPLICIT)
def test_specs_need_a_mesh(way):
    with pytest.raises(MissingMeshError, match="no mesh is current"):
        (BARE_AUTO | BARE_EXPLICIT)[way](P("x"), EVEN)


def test_the_array_is_named():
    for call, name in (
        (lambda: pl.device_put({"w": [UNEVEN]}, over(P("x"))), 'device_put: x["w"][0] of shape (6, 4)'),
        (lambda: pl.reshard([UNEVEN], NamedSharding(explicit(), P("x"))), "reshard: xs[0] of shape (6, 4)"),
        (lambda: SHARDINGS["in_shardings"](P("x"), UNEVEN), "`sin`: in_shardings: "),
        (lambda: jnp.zeros(6, device=over(P("x"))), "jnp.zeros: a result of shape (6,)"),
    ):  # fmt: skip
        assert name in told(call, IndivisibleError)
