"""Law of peak memory: one figure in all views, that of XLA's buffer assignment."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import pellucid as pl
import pellucid.numpy as jnp
from pellucid import lax
from pellucid_viz import figures

X = np.ones((64, 64), np.float32)


def loss(x, w):
    return jnp.sum(jnp.tanh(jnp.sin(x @ w) @ w))


def looped(x):
    return lax.scan(lambda c, a: (jnp.sin(c @ c) + a, c), x, jnp.ones((5, 64, 64)))


def branching(x):
    return lax.cond(x[0, 0] > 0, lambda x: x @ x @ x, lambda x: x + 1, x)


def over_devices(x):
    mesh = pl.make_mesh((8,), ("i",), axis_types=(pl.sharding.AxisType.Auto,))
    return pl.device_put(x, pl.NamedSharding(mesh, pl.P("i")))


PROGRAMS = {
    "gradient": lambda: (pl.grad(loss), X, X),
    "donated argument": lambda: (pl.jit(lambda x: jnp.sin(x) + 1, donate_argnums=0), X),
    "loop": lambda: (looped, X),
    "branch": lambda: (branching, X),
    "transform with temporaries": lambda: (jnp.fft.fft, X),
    "argument that is not used": lambda: (lambda x, y: jnp.sort(x), X, X),
    "parts on eight devices": lambda: (pl.grad(loss), over_devices(X), X),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_all_views_show_the_peak_of_the_buffer_assignment(name):
    function, *args = PROGRAMS[name]()
    memory = figures.compiled(function)(*args).record.memory
    sharding = figures.sharding(function)(*args).record
    assert figures.memory(function)(*args).record.memory == memory
    assert set(sharding.device_peak_bytes) == {memory.peak_bytes}
    assert memory.peak_bytes >= memory.temporary_bytes
    assert memory.peak_bytes >= memory.argument_bytes + memory.output_bytes - memory.alias_bytes
    jitted = function if hasattr(function, "lower") else pl.jit(function)
    stats = jitted.lower(*args).compile().memory_analysis()
    assigned = sum(assigned_sizes(stats.serialized_buffer_assignment_proto))
    assert memory.peak_bytes == pytest.approx(assigned, rel=0.01)


ALLOCATIONS = 3
"""Number of the field of `BufferAssignmentProto`; those below are of `BufferAllocationProto`."""
SIZE, IS_THREAD_LOCAL, IS_CONSTANT = 2, 3, 12


def assigned_sizes(proto: bytes) -> Iterator[int]:
    """Bytes of the allocations in a buffer assignment that a run makes: no constants, no stack frames."""
    for number, allocation in fields_of(proto):
        if number == ALLOCATIONS:
            actual = dict(fields_of(allocation))
            if not actual.get(IS_THREAD_LOCAL) and not actual.get(IS_CONSTANT):
                yield actual.get(SIZE, 0)


def fields_of(message: bytes) -> Iterator[tuple[int, Any]]:
    """Number and value of each field of a protobuf message that has integers and nested messages only."""
    at = 0
    while at < len(message):
        key, at = varint(message, at)
        value, at = varint(message, at)
        if key & 7 == 2:
            value, at = message[at : at + value], at + value
        yield key >> 3, value


def varint(message: bytes, at: int) -> tuple[int, int]:
    """The integer at a place, and the place behind it."""
    value = shift = 0
    while True:
        byte = message[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at
