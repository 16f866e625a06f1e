"""Uneven cuts of an executable: those of the newest program that runs it, also within loops, and none once it is gone."""

import gc

import numpy as np
import pytest

import pellucid as pl
from pellucid import lax, numpy as jnp
from pellucid.analysis import uneven_cuts
from pellucid.experimental.serialize_executable import deserialize_and_load, serialize


@pytest.fixture
def rows():
    return pl.NamedSharding(pl.sharding.Mesh(np.array(pl.devices()), ("x",)), pl.P("x"))


def test_cuts_within_loops_are_found_once_each(rows) -> None:
    def body(_, x):
        return lax.with_sharding_constraint(jnp.sin(x), rows)

    function = pl.jit(lambda x: lax.fori_loop(0, 3, body, x) + x)
    stage, even = (function.lower(jnp.ones((size, 2))).compile() for size in (9, 16))
    [cut] = uneven_cuts(stage.runtime_executable())
    assert (cut.size, cut.parts, cut.padded, cut.dim) == (9, 8, 16, 0)
    assert (cut.whole_bytes, cut.device_bytes) == (9 * 2 * 4, 2 * 2 * 4)
    assert cut.place is not None
    assert cut.place.function == "test_cuts_within_loops_are_found_once_each.<locals>.body"
    assert uneven_cuts(even.runtime_executable()) == []


def line_of(cut) -> int:
    return cut.place.line


def test_an_executable_that_equal_programs_share_has_the_lines_of_the_newest(rows) -> None:
    def first(x):
        return lax.with_sharding_constraint(x - 5, rows)

    def second(x):
        return lax.with_sharding_constraint(x - 5, rows)

    second.__name__ = "first"
    stages = [pl.jit(f).lower(jnp.ones(11)).compile() for f in (first, second)]
    executables = [each.runtime_executable() for each in stages]
    assert executables[0] is executables[1]
    [cut] = uneven_cuts(executables[1])
    assert line_of(cut) == second.__code__.co_firstlineno + 1
    del stages[1:]
    gc.collect()
    [cut] = uneven_cuts(executables[0])
    assert line_of(cut) == first.__code__.co_firstlineno + 1


def test_a_program_that_is_gone_or_was_read_from_bytes_has_none(rows) -> None:
    stage = (
        pl.jit(lambda x: lax.with_sharding_constraint(x + 3, rows)).lower(jnp.ones(13)).compile()
    )
    read = deserialize_and_load(*serialize(stage))
    assert uneven_cuts(read.runtime_executable()) == []
    executable = stage.runtime_executable()
    assert uneven_cuts(executable)
    del stage
    pl.clear_caches()
    gc.collect()
    assert uneven_cuts(executable) == []
